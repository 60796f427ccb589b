"""Files of labels: what people said of pairs of answers, or of single ones. No database."""

from judges.labels.collecting import BadLabels, LabelFile, LabelledItem, read_labels

__all__ = ["BadLabels", "LabelFile", "LabelledItem", "read_labels"]

"""Read-only admin pages for judges, their judgements, labels, calibrations and decisions."""

from arena.admin.base import show_table
from judges.models import (
    Baseline,
    Calibration,
    Decision,
    DriftCheck,
    DriftCheckSet,
    Epoch,
    Judge,
    Judgement,
    JuryVerdict,
    Label,
    LabelItem,
    LabelSet,
    Mark,
    MergedModel,
    RunJudge,
)

show_table(
    Judge,
    "name endpoint model family rubric registered_at",
    filters="protocol endpoint family rubric",
    search="name model digest",
)
show_table(MergedModel, "name family merged_at", search="name family")
show_table(
    Epoch, "judge number model_returned started_at ended_at reason", search="judge__name reason"
)
show_table(
    RunJudge, "run epoch own_family", search="epoch__judge__name", related="run epoch__judge"
)
show_table(
    Judgement,
    "epoch run responses sample state flagged settled_at",
    filters="state flagged",
    search="responses",
    related="epoch__judge run",
)
show_table(
    JuryVerdict,
    "epoch run responses state settled_at",
    filters="state",
    search="responses",
    related="epoch__judge run",
)
show_table(Mark, "judgement user kind holds made_at", filters="kind holds", search="user__username")
show_table(LabelSet, "name kind created_at", filters="kind", search="name digest")
show_table(LabelItem, "key labels_in category trap", filters="trap", search="key category")
show_table(Label, "item rater outcome score", filters="outcome", search="rater")
show_table(
    Calibration,
    "epoch kind label_set arena trusted made_at",
    filters="kind trusted",
    search="epoch__judge__name",
    related="epoch__judge label_set arena",
)
show_table(DriftCheckSet, "judge label_set cap set_at stopped_at", search="judge__name")
show_table(
    DriftCheck,
    "canary why n changed p alarm begun_at evaluated_at",
    filters="why alarm",
    search="canary__judge__name",
)
show_table(Baseline, "team arena candidate chosen_by chosen_at", search="team__name arena__name")
show_table(Decision, "sentence team lead known_at", filters="lead", search="sentence team__name")

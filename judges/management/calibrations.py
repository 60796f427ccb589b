"""A calibration in words, for the commands."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from arena.calls.money import dollars
from judges.models import Calibration, LabelSet
from judges.wording import HONEYPOTS
from ranking.stats.bootstrap import Estimate

Figures = dict[str, Any]


def describe_calibration(calibration: Calibration) -> list[str]:
    """Return the figures of a calibration, one sentence per line."""
    report = calibration.report
    describe = {
        LabelSet.Kind.PAIRS.value: _describe_pairs,
        LabelSet.Kind.SCORES.value: _describe_scores,
        LabelSet.Kind.HONEYPOTS.value: _describe_honeypots,
    }[calibration.kind]
    lines = [*describe(report)]
    for row in report.get("setups", []):
        lines.append(
            f"{row['what']}, accuracy without ties: {_share(row['first']['without_ties'])} against "
            f"{_share(row['second']['without_ties'])}, {_points(row['difference'])}."
        )
    return [*lines, _describe_cost(report["money"]), *_describe_trust(report["trust"])]


def _describe_trust(trust: Figures) -> Iterable[str]:
    failed = trust.get("failed")
    for reason in trust["reasons"]:
        met = "" if failed is None else "Not met: " if reason in failed else "Met: "
        yield met + reason


def _describe_pairs(report: Figures) -> Iterable[str]:
    yield f"{report['n_items']} pairs with {report['n_labels']} labels: {_states(report)}."
    against_all, accuracy = report["against_all"], report["benchmarks"]["verdict"]
    yield (
        f"On all items (a tie or no verdict counts half): {_share(report['on_all'])}; with a "
        f"verdict: {_share(report['coverage'])}."
    )
    yield f"Agreement with people where both choose a side: {_share(against_all['decisive'])}."
    yield (
        f"Ties included: {_share(against_all['three_way'])}; "
        f"Cohen's kappa {_number(against_all['kappa'])}."
    )
    yield f"People with each other: {_share(report['people']['decisive'])}."
    yield (
        f"Accuracy, where no verdict is wrong: {_share(accuracy['with_ties'])} with ties; "
        f"{_share(accuracy['without_ties'])} without."
    )
    yield (
        f"People prefer the longer answer: {_share(report['by_length'])}; where they prefer the "
        f"shorter one, the judge agrees: {_share(report['against_length'])}."
    )
    yield (
        f"Inconsistent when swapped: {_share(report['flips'])}; picks the answer shown first: "
        f"{_share(report['first_position'])}."
    )
    yield (
        f"Picks the longer answer: {_share(report['picks_longer']['judge'])}; people: "
        f"{_share(report['picks_longer']['people'])}."
    )
    if report["repeats"]["value"] is not None:
        yield f"Krippendorff's alpha over repeated runs: {report['repeats']['value']:.4f}."
    if report.get("not_asked"):
        yield f"{report['not_asked']} pairs with human votes have no verdict by this judge yet."


def _describe_scores(report: Figures) -> Iterable[str]:
    yield f"{report['n_items']} answers with {report['n_labels']} scores: {_states(report)}."
    yield f"People with each other: Pearson {_number(report['people']['pearson'])}."
    yield f"Judge with people: {_correlations(report['against_all'])}."
    if report["repeats"]["nominal"]["value"] is not None:
        alphas = [f"{name} {report['repeats'][name]['value']:.4f}" for name in report["repeats"]]
        yield f"Krippendorff's alpha over repeated runs: {', '.join(alphas)}."


def _describe_honeypots(report: Figures) -> Iterable[str]:
    yield f"{report['n_items']} honeypots: {_states(report)}."
    yield f"Honeypot failures: {_share(report['false_wins'])}."
    for kind in report["traps"]:
        yield f"  {HONEYPOTS[kind['trap']]}: {_share(kind['false_wins'])}."


def describe_raters(kind: str, agreement: Estimate) -> str:
    """Return how far people agree in a file, as one sentence."""
    figures = asdict(agreement)
    if kind == LabelSet.Kind.SCORES:
        return f"People with each other, on all items: Pearson {_number(figures)}."
    return f"People with each other, on all items: {_share(figures)}."


def _describe_cost(money: Figures) -> str:
    cost = f"Cost: {dollars(money['cost'])}"
    if money["cost_per_verdict"] is None:
        return f"{cost}; no verdicts."
    each = f"{dollars(money['cost_per_verdict'])} and {money['seconds_per_verdict']:.2f} s"
    return f"{cost} for {money['verdicts']} verdicts, {each} per verdict."


def _states(report: Figures) -> str:
    return ", ".join(f"{state} {n}" for state, n in report["states"].items() if n)


def _share(estimate: Figures) -> str:
    if estimate["value"] is None:
        return f"not available ({estimate['reason']})"
    share = f"{estimate['value']:.1%}{_interval(estimate, '{:.1%}')}"
    return f"{share} of {estimate['n']}"


def _points(estimate: Figures) -> str:
    if estimate["value"] is None:
        return f"not available ({estimate['reason']})"
    scaled = {name: estimate[name] and 100 * estimate[name] for name in ("low", "high")}
    return f"{100 * estimate['value']:+.1f} points{_interval(scaled, '{:+.1f}')}"


def _number(estimate: Figures) -> str:
    if estimate["value"] is None:
        return f"not available ({estimate['reason']})"
    return f"{estimate['value']:.3f}{_interval(estimate, '{:.3f}')}"


def _correlations(against: Figures) -> str:
    others = {"Spearman": "spearman", "Kendall's tau-b": "kendall"}
    parts = [f"Pearson {_number(against['pearson'])}"]
    parts += [f"{n} {against[key]:.3f}" for n, key in others.items() if against[key] is not None]
    if (error := against["mean_absolute_error"]) is not None:
        parts.append(f"mean absolute error {error:.2f}")
    return ", ".join(parts)


def _interval(estimate: Figures, form: str) -> str:
    if estimate["low"] is None or estimate["high"] is None:
        return ""
    return f" ({form.format(estimate['low'])} to {form.format(estimate['high'])})"

"""What a measurement found, in plain words for a terminal."""

from collections.abc import Iterable
from typing import Any

from arena.calls.money import dollars
from judges.models import Calibration, LabelSet

Found = dict[str, Any]


def told(calibration: Calibration) -> list[str]:
    """Return the figures of a measurement, one sentence a line."""
    report = calibration.report
    if calibration.kind == LabelSet.Kind.HONEYPOTS:
        lines = list(_honeypots(report))
    elif calibration.kind == LabelSet.Kind.SCORES:
        lines = list(_scores(report))
    else:
        lines = list(_pairs(report))
    return [*lines, *_beside(report), _money(report["money"]), *report["trust"]["reasons"]]


def _pairs(report: Found) -> Iterable[str]:
    yield f"{report['n_items']} pairs with {report['n_labels']} labels: {_states(report)}."
    yield f"Agreement with people where both decide: {_share(report['against_all']['decisive'])}."
    yield (
        f"Three ways (left, right, tie): {_share(report['against_all']['three_way'])}; "
        f"Cohen's kappa {_number(report['against_all']['kappa'])}."
    )
    yield (
        f"Against the majority of people: {_share(report['against_majority']['decisive'])}; where "
        f"all agree: {_share(report['where_all_agree']['decisive'])}."
    )
    yield f"People among themselves: {_share(report['people']['decisive'])}."
    yield (
        f"The longer answer wins: {_share(report['longer']['decisive'])}; the judge's lift over "
        f"that: {_points(report['longer']['lift_decisive'])}."
    )
    yield (
        f"Flip rate {_share(report['flips'])}; the answer shown first wins "
        f"{_share(report['first_position'])}."
    )
    yield (
        f"It picks the longer answer in {_share(report['picks_longer']['judge'])}, people in "
        f"{_share(report['picks_longer']['people'])}."
    )
    if report["repeats"]["value"] is not None:
        yield f"Krippendorff's alpha over repeated runs: {report['repeats']['value']:.4f}."
    if report.get("not_asked"):
        yield f"{report['not_asked']} pairs that people voted on have no verdict of this judge yet."


def _scores(report: Found) -> Iterable[str]:
    yield f"{report['n_items']} answers with {report['n_labels']} scores: {_states(report)}."
    people = report["people"]["pearson"]
    yield f"People among themselves: Pearson {_number(people)}."
    for name, against in (
        ("all people's scores", "against_all"),
        ("their average", "against_average"),
        ("answers on which all agree", "where_all_agree"),
    ):
        yield f"Against {name}: {_correlations(report[against])}."
    if report["repeats"]["nominal"]["value"] is not None:
        alphas = [f"{name} {report['repeats'][name]['value']:.4f}" for name in report["repeats"]]
        yield f"Over repeated runs: Krippendorff's alpha {', '.join(alphas)}."


def _honeypots(report: Found) -> Iterable[str]:
    yield f"{report['n_items']} traps: {_states(report)}."
    yield f"The trap won: {_share(report['false_wins'])}."
    for one in report["traps"]:
        yield f"  {one['trap'].replace('_', ' ')}: {_share(one['false_wins'])}."


def _beside(report: Found) -> Iterable[str]:
    for one in report.get("beside", []):
        difference = one["difference"]
        yield (
            f"{one['what']} ({one['judge']}): {_points(difference['decisive'])} on "
            f"{difference['n_items']} items."
        )


def _money(money: Found) -> str:
    said = f"Cost: {dollars(money['cost'])}"
    if money["cost_per_verdict"] is None:
        return f"{said}; there is no verdict."
    each = f"{dollars(money['cost_per_verdict'])} and {money['seconds_per_verdict']:.2f} s"
    return f"{said} for {money['verdicts']} verdicts, {each} each."


def _states(report: Found) -> str:
    return ", ".join(f"{state} {n}" for state, n in report["states"].items() if n)


def _share(found: Found) -> str:
    if found["value"] is None:
        return f"not known ({found['reason']})"
    return f"{found['value']:.1%}{_interval(found, '{:.1%}')} of {found['n']}"


def _points(found: Found) -> str:
    if found["value"] is None:
        return f"not known ({found['reason']})"
    scaled = {name: found[name] and 100 * found[name] for name in ("low", "high")}
    return f"{100 * found['value']:+.1f} points{_interval(scaled, '{:+.1f}')}"


def _number(found: Found) -> str:
    if found["value"] is None:
        return f"not known ({found['reason']})"
    return f"{found['value']:.3f}{_interval(found, '{:.3f}')}"


def _correlations(found: Found) -> str:
    others = {"Spearman": "spearman", "Kendall's tau-b": "kendall"}
    rest = [f"{name} {found[key]:.3f}" for name, key in others.items() if found[key] is not None]
    error = found["mean_absolute_error"]
    rest += [] if error is None else [f"mean absolute error {error:.2f}"]
    return ", ".join([f"Pearson {_number(found['pearson'])}", *rest])


def _interval(found: Found, form: str) -> str:
    if found["low"] is None or found["high"] is None:
        return ""
    return f" ({form.format(found['low'])} to {form.format(found['high'])})"

"""A judge's switches on the command line."""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from arena.actors import CLI
from judges.core.spec import EFFORTS, Example
from judges.management.calibrations import Figures
from judges.models import Judge
from judges.services.examples import examples_from, rubric_in
from judges.services.registry import Switches


def add_switches(parser: ArgumentParser) -> None:
    """Add the options that turn the same endpoint, model and rubric into another judge."""
    add = parser.add_argument
    add(
        "--order-policy",
        choices=Judge.SwapPolicy.values,
        default=Judge.SwapPolicy.ABSTAIN.value,
        help="what to do if a verdict is inconsistent when swapped; default: abstain",
    )
    add("--soft", action="store_true", help="record probabilities where the endpoint returns them")
    add("--samples", type=int, default=1, metavar="K", help="ask K times for each verdict")
    add(
        "--output-limit",
        type=int,
        metavar="TOKENS",
        help="the most tokens of a reply, thought included; default: the rubric's own, or what the"
        " model needed when it was measured",
    )
    add("--effort", choices=EFFORTS, default="", help="how much a model that thinks shall think")
    add("--any-length", action="store_true", help="do not mention length to the judge")
    add("--examples", type=int, metavar="N", help="show the judge N examples with verdicts")
    add("--examples-from", metavar="SET", help="the label set to draw the examples from")
    add("--schema", action="store_true", help="hold an earlier judge to a schema in every reply")
    add("--unpinned", action="store_true", help="allow a model name that can change")


def switches_of(name: str, options: Figures) -> Switches:
    """Return the switches of the judge called `name`; raises CommandError and JudgeError."""
    return Switches(
        examples=_examples(name, options),
        swap_policy=options["order_policy"],
        unpinned=options["unpinned"],
        length_neutral=False if options["any_length"] else None,
        soft=options["soft"],
        readings=options["samples"],
        schema=True if options["schema"] else None,
        output_limit=options["output_limit"],
        effort=options["effort"],
    )


def _examples(name: str, options: Figures) -> tuple[Example, ...]:
    if options["examples"] is None:
        return ()
    if not options["examples_from"]:
        raise CommandError("--examples needs --examples-from: the label set to draw them from.")
    return examples_from(
        name=options["examples_from"],
        rubric=rubric_in(name),
        n=options["examples"],
        seed=int(options["seed"]),
        by=CLI,
    )

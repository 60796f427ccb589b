"""`manage.py judge`: order votes from LLM judges and watch them come in."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse
from django.utils import timezone

from arena.calls.money import dollars
from arena.management.amounts import cap_in_nano
from arena.models import Arena, Run
from arena.services.refusals import Refused
from judges.core.examples import Example
from judges.core.spec import JudgeSpec
from judges.management.following import NO_WORKER, follow, ring
from judges.reports import JudgeReport, RunReport
from judges.services.exampling import examples_from, rubric_in
from judges.services.going_on import go_on, unfinished_run
from judges.services.ordering import check_cap, order_run
from judges.services.orders import Order, prepare_order
from judges.services.planning import Wanted
from judges.services.probing import probe_judges
from judges.services.quoting import JudgeQuote, Quote, quote_for
from judges.services.registering import Switches, spec_named
from judges.services.steering import set_cap

PER_PAIR = 5
SCRIPTED = "The scripted judge is arithmetic, not a real model."


class Command(BaseCommand):
    help = "Have judges compare answers blind and in both orders, through the worker."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("arena", metavar="SLUG")
        add(
            "--judges",
            "--judge",
            required=True,
            metavar="NAMES",
            help="registered judges, or endpoint:model[@rubric], with commas between; several are"
            " a jury; `scripted` needs no key",
        )
        add("--pairs", choices=["all", "neighbours", "new"], default="all")
        add(
            "--per-pair",
            type=int,
            metavar="N",
            help=f"comparisons for each pair; default: {PER_PAIR}",
        )
        add(
            "--cap",
            metavar="USD",
            help="dollars a run may cost at most; a higher one raises that of a paused run",
        )
        add("--max-calls", type=int, metavar="M", help="create at most M calls")
        add("--quorum", type=int, metavar="K", help="verdicts a jury needs; default: a majority")
        add("--again", action="store_true", help="buy pairs that are told apart already, too")
        add("--like-run", type=int, metavar="RUN", help="ask what that run asked, of this judge")
        add("--own-family", action="store_true", help="judges may judge their own model family")
        add("--order-policy", choices=["abstain", "tie", "average"], default="abstain")
        add("--soft", action="store_true", help="record probabilities, where the endpoint has them")
        add("--any-length", action="store_true", help="say nothing about length to the judge")
        add("--examples", type=int, metavar="N", help="show the judge N examples with verdicts")
        add("--examples-from", metavar="SET", help="the labels they are drawn from")
        add("--seed", type=int, default=0, help="draws the examples")
        add("--unpinned", action="store_true", help="allow a model name that may move")
        add("--dry-run", action="store_true", help="print the quote, order nothing")
        add("--no-wait", action="store_true", help="order, and do not watch")

    def handle(self, *args: Any, **options: Any) -> None:
        arena = self._arena(options["arena"])
        options["cap"] = cap_in_nano(options["cap"])
        _check_numbers(options)
        try:
            names = _names(options["judges"])
            specs = [spec_named(name, _switches(name, options)) for name in names]
            run = None if options["dry_run"] else self._unfinished(arena, specs, options["cap"])
            if run is None:
                order = prepare_order(
                    arena=arena,
                    specs=specs,
                    wanted=_wanted(arena, options),
                    own_family=options["own_family"],
                    quorum=options["quorum"],
                    max_calls=options["max_calls"],
                )
                run = self._quote_and_order(order, options)
        except Refused as error:
            raise CommandError(_with_option(str(error))) from None
        if run is not None:
            self._watch(run, wait=not options["no_wait"])

    def _arena(self, slug: str) -> Arena:
        arena = Arena.objects.revealed().filter(slug=slug).first()
        if arena is None:
            raise CommandError(f"There is no arena {slug!r}.")
        return arena

    def _unfinished(self, arena: Arena, specs: list[JudgeSpec], cap: int | None) -> Run | None:
        run = unfinished_run(arena=arena, digests=[spec.digest for spec in specs])
        if run is None:
            return None
        about_cap = _with_cap(run, cap)
        why = f" (paused: {run.pause_reason})" if run.pause_reason else ""
        self.stdout.write(
            f"Run {run.pk} of this judge was not through{why}; it goes on.{about_cap}"
        )
        return go_on(run=run, now=timezone.now())

    def _quote_and_order(self, order: Order, options: dict[str, Any]) -> Run | None:
        quote = quote_for(order)
        self._print_quote(quote, options)
        if options["dry_run"]:
            self.stdout.write("Nothing was ordered (--dry-run).")
            return None
        check_cap(quote, options["cap"])  # first: looking at a model costs a few tokens
        probe_judges(specs=[member.spec for member in order.members], now=timezone.now())
        run = order_run(order=order, cap=options["cap"], now=timezone.now())
        names = ", ".join(member.spec.label for member in order.members)
        self.stdout.write(f"Run {run.pk}: {run.votes_wanted} comparisons from {names}.")
        return run

    def _print_quote(self, quote: Quote, options: dict[str, Any]) -> None:
        for sentence in quote.left_out:
            self.stdout.write(f"Note: {_with_option(sentence)}")
        for judge in quote.judges:
            self.stdout.write(_quote_line(judge, quote))
        for judge in quote.without_price:
            self.stdout.write(f"Cost: not known: {judge.model} at {judge.endpoint} has no price.")
        if quote.worst is not None and quote.expected is not None:
            self.stdout.write(
                f"Cost: {dollars(quote.expected)} expected, {dollars(quote.worst)} at worst"
                + (f"; the cap is {dollars(options['cap'])}." if options["cap"] else ".")
            )

    def _watch(self, run: Run, *, wait: bool) -> None:
        page = reverse("judge_run", args=[run.arena.slug, run.pk]) if run.arena else ""
        self.stdout.write(f"Watch it on your Ringside's page {page}")
        if trouble := ring():
            self.stderr.write(trouble)
        if not wait:
            return
        try:
            report = follow(run)
        except KeyboardInterrupt:
            self.stdout.write(f"\nLeft running. It can be watched on your Ringside's page {page}")
            return
        self._sum_up(report)
        if report.run.state == Run.State.PAUSED:
            raise CommandError(f"The run paused: {report.run.pause_reason} {_how_on(report.run)}")
        if not report.is_over:
            raise CommandError(NO_WORKER)

    def _sum_up(self, report: RunReport) -> None:
        for judge in report.judges:
            self.stdout.write(_judge_line(judge))
        if report.jury is not None:
            states = ", ".join(f"{label.lower()} {n}" for _, label, n in report.jury_rows if n)
            kappa = "not known" if report.kappa is None else f"{report.kappa:.2f}"
            self.stdout.write(f"{report.jury}: {states}. Fleiss' kappa {kappa}.")
        self.stdout.write(
            f"{report.requests} requests for {report.calls} calls: {dollars(report.spent)}."
        )
        if report.is_scripted:
            self.stdout.write(SCRIPTED)


def _with_cap(run: Run, cap: int | None) -> str:
    """Raise an unfinished run's cap to a higher `cap`; say what the run may cost from now on."""
    before = run.cap
    if cap is None or (before is not None and cap <= before):
        return "" if before is None else f" Its cap stays {dollars(before)}."
    try:
        set_cap(run=run, cap=cap)
    except Refused as refusal:
        raise CommandError(str(refusal)) from None
    was = "It had no cap" if before is None else f"Its cap was {dollars(before)}"
    return f" {was}; now it is {dollars(cap)}."


def _how_on(run: Run) -> str:
    """What to type so that a paused run goes on; more of the same does nothing for a spent cap."""
    if run.cap is None:
        return "Give the same command again to go on."
    return (
        "Give the same command again to go on, with a --cap above "
        f"{dollars(run.cap)} where the cap is what stopped it."
    )


def _names(given: str) -> list[str]:
    return [name.strip() for name in given.split(",") if name.strip()]


def _switches(name: str, options: dict[str, Any]) -> Switches:
    return Switches(
        examples=_examples(name, options),
        order_policy=options["order_policy"],
        unpinned=options["unpinned"],
        length_neutral=False if options["any_length"] else None,
        soft=options["soft"],
    )


def _examples(name: str, options: dict[str, Any]) -> tuple[Example, ...]:
    if options["examples"] is None:
        return ()
    if not options["examples_from"]:
        raise CommandError("--examples needs --examples-from: the labels to draw them from.")
    return examples_from(
        name=options["examples_from"],
        rubric=rubric_in(name),
        n=options["examples"],
        seed=options["seed"],
    )


def _wanted(arena: Arena, options: dict[str, Any]) -> Wanted:
    like, per_pair = None, options["per_pair"]
    if options["like_run"] is not None:
        like = Run.objects.filter(arena=arena, pk=options["like_run"], kind="judge").first()
        if like is None:
            raise CommandError(f"This arena has no run {options['like_run']} of judges.")
        per_pair = like.per_pair if per_pair is None else per_pair
    if per_pair is None:
        per_pair = PER_PAIR
    return Wanted(per_pair, options["pairs"], options["again"], like)


def _check_numbers(options: dict[str, Any]) -> None:
    if options["per_pair"] is not None and options["per_pair"] < 1:
        raise CommandError("--per-pair must be at least 1.")
    if options["max_calls"] is not None and options["max_calls"] < 0:
        raise CommandError("--max-calls must not be negative.")


def _with_option(sentence: str) -> str:
    """Name the option that buys pairs told apart already; the web form says this sentence too."""
    if "told apart already" not in sentence:
        return sentence
    return f"{sentence.rstrip('.')}; --again buys them too."


def _quote_line(judge: JudgeQuote, quote: Quote) -> str:
    cost = "" if judge.expected is None else f", {dollars(judge.expected)} expected"
    return (
        f"{judge.label}: {quote.pairs} pairs, {judge.comparisons} comparisons, {judge.calls} calls"
        f" (both orders), about {judge.tokens_in:,} tokens in and {judge.tokens_out:,} out{cost}."
    )


def _judge_line(judge: JudgeReport) -> str:
    states = ", ".join(f"{label.lower()} {n}" for _, label, n in judge.state_rows if n)
    said = f"{judge.epoch}: {judge.total} comparisons: {states}."
    if judge.flip_rate is None:
        said += " The flip rate is not known."
    else:
        said += f" Flip rate {judge.flip_rate:.0%}."
    if judge.first_position_rate is None:
        return f"{said} Whether it prefers the answer shown first is not known."
    first = f"{judge.first_position_rate:.0%}"
    return f"{said} The answer shown first won {first} of decisive verdicts."

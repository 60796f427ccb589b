"""`manage.py calibrate`: measure a judge against people's labels, their votes, or traps."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from arena.calls.money import dollars
from arena.importers.base import FileProblem
from arena.management.amounts import cap_in_nano
from arena.models import Arena, Run
from arena.services.refusals import Refused
from judges.core.honeypots import ReplyForm
from judges.core.spec import JudgeSpec
from judges.labels import BadLabels, LabelFile, read_labels
from judges.management.following import ring
from judges.management.measurements import told
from judges.management.waiting import wait_for
from judges.models import Calibration, Epoch, Judgement, LabelItem, LabelSet
from judges.services.calibrating import measure_arena, measure_labels
from judges.services.going_on import go_on, unfinished_run
from judges.services.honeypotting import (
    PROMPTS,
    draft_honeypots,
    make_honeypots,
    measure_honeypots,
)
from judges.services.labelling import add_labels, drawn, items_of, stored_labels
from judges.services.ordering import order_run
from judges.services.probing import probe_judges
from judges.services.quoting import Quote, quote_for
from judges.services.readings import voted_on
from judges.services.registering import (
    jury_named,
    register_judge,
    spec_named,
)
from judges.services.trusting import trust_problems
from judges.services.trying import Outstanding, ask_outstanding, outstanding, quote_outstanding
from judges.services.voted_pairs import order_of_voted

NOTHING_ORDERED = "Nothing was ordered (--dry-run)."
VOTES_COUNT = "Its votes count on the judges' board like any others."


class Command(BaseCommand):
    help = "Measure how far a judge agrees with people, or how often it falls into traps."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("judge", metavar="JUDGE", help="a registered judge, or endpoint:model[@rubric]")
        against = parser.add_mutually_exclusive_group(required=True)
        against.add_argument("--labels", type=Path, metavar="FILE", help="JSON Lines or CSV")
        against.add_argument(
            "--arena",
            metavar="SLUG",
            help="people's votes in an arena; the judge votes on the same pairs, and its votes "
            "count on the judges' board like any others",
        )
        against.add_argument("--honeypots", metavar="SLUG", help="traps made of its answers")
        add("--repeat", type=int, default=0, metavar="K", help="ask each label K times more")
        add("--limit", type=int, metavar="N", help="N items (of traps: N prompts), drawn by seed")
        add("--seed", default="0", metavar="S", help="what draws them; default: 0")
        add("--cap", metavar="USD", help="what this may cost at most, in dollars")
        add("--dry-run", action="store_true", help="print the quote, order nothing")
        add("--no-wait", action="store_true", help="order, and measure another time")

    def handle(self, *args: Any, **options: Any) -> None:
        _check_numbers(options)
        options["cap"] = cap_in_nano(options["cap"])
        try:
            jury = jury_named(options["judge"])
            if jury is not None:
                self._tell(_jury_measured(jury, options))
                return
            spec = spec_named(options["judge"])
            if options["arena"]:
                calibration = self._against_arena(spec, options)
            else:
                calibration = self._against_items(spec, options)
        except (Refused, BadLabels, FileProblem) as error:
            raise CommandError(str(error)) from None
        if calibration is not None:
            self._tell(calibration)

    # -- Labels and traps ----------------------------------------------------------------------

    def _against_items(self, spec: JudgeSpec, options: dict[str, Any]) -> Calibration | None:
        labels_in, items = self._items(spec, options)
        samples = range(options["repeat"] + 1)
        found = outstanding(spec=spec, epoch=_epoch_of(spec), items=items, samples=samples)
        self._quote(quote_outstanding(spec, found), found, options)
        if labels_in is None or options["dry_run"]:
            self.stdout.write(NOTHING_ORDERED)
            return None
        self._probe(spec, asks=bool(found.missing))
        epoch = register_judge(spec=spec)
        found = outstanding(spec=spec, epoch=epoch, items=items, samples=samples)
        now, cap = timezone.now(), options["cap"]
        runs = ask_outstanding(epoch=epoch, found=found, samples=samples, cap=cap, now=now)
        if not self._through(runs, options):
            return None
        measure = measure_honeypots if options["honeypots"] else measure_labels
        return measure(epoch=epoch, labels_in=labels_in, now=timezone.now())

    def _items(
        self, spec: JudgeSpec, options: dict[str, Any]
    ) -> tuple[LabelSet | None, list[LabelItem]]:
        """The set, and those of its items that are to be asked; no set while nothing is written."""
        if options["honeypots"]:
            return self._traps(spec, options)
        file = read_labels(options["labels"])
        self._tell_file(file)
        stored = stored_labels(file)
        if stored is None and not options["dry_run"]:
            stored = add_labels(file=file, name=options["labels"].name)
        items = items_of(file) if stored is None else list(stored.items.all())
        return stored, drawn(items, options["limit"], options["seed"])

    def _traps(
        self, spec: JudgeSpec, options: dict[str, Any]
    ) -> tuple[LabelSet | None, list[LabelItem]]:
        arena = _arena(options["honeypots"])
        form: ReplyForm = "prometheus" if spec.rubric.verdict == "prometheus" else "line"
        prompts, seed = options["limit"] or PROMPTS, options["seed"]
        chosen: dict[str, Any] = {"prompts": prompts, "seed": seed, "reply_form": form}
        if options["dry_run"]:
            return None, draft_honeypots(arena=arena, **chosen)
        made = make_honeypots(arena=arena, **chosen)
        return made, list(made.items.all())

    def _tell_file(self, file: LabelFile) -> None:
        self.stdout.write(f"{len(file.items)} items with {file.labels} labels.")
        if file.empty:
            self.stdout.write(f"Note: {file.empty} rows have a blank text, and are left out.")

    def _quote(self, quote: Quote, found: Outstanding, options: dict[str, Any]) -> None:
        for sentence in found.left_out:
            self.stdout.write(f"Note: {sentence}")
        for run in found.runs:
            self.stdout.write(f"Run {run.pk} was not through ({run.state}).")
        if found.missing:
            self._tell_quote(quote, options)
        else:
            self.stdout.write("There is nothing new to ask.")

    def _tell_quote(self, quote: Quote, options: dict[str, Any]) -> None:
        judge = quote.judges[0]
        self.stdout.write(
            f"{judge.label}: {judge.comparisons} verdicts, {judge.calls} calls, about "
            f"{judge.tokens_in:,} tokens in and {judge.tokens_out:,} out."
        )
        for unpriced in quote.without_price:
            self.stdout.write(
                f"Cost: not known: {unpriced.model} at {unpriced.endpoint} has no price."
            )
        if quote.expected is not None and quote.worst is not None:
            cap = f"; the cap is {dollars(options['cap'])}" if options["cap"] else ""
            self.stdout.write(
                f"Cost: {dollars(quote.expected)} expected, {dollars(quote.worst)} at worst{cap}."
            )

    # -- An arena's votes ----------------------------------------------------------------------

    def _against_arena(self, spec: JudgeSpec, options: dict[str, Any]) -> Calibration | None:
        arena = _arena(options["arena"])
        chosen = {"limit": options["limit"], "seed": options["seed"]}
        epoch = _epoch_of(spec)
        order = order_of_voted(arena=arena, spec=spec, epoch=epoch, **chosen)
        if there := _verdicts_there(arena, epoch):
            self.stdout.write(
                f"Of the pairs that people voted on, {there} have its verdict already."
            )
        if order is not None:
            for sentence in order.left_out:
                self.stdout.write(f"Note: {sentence}")
            self._tell_quote(quote_for(order), options)
            self.stdout.write(VOTES_COUNT)
        if options["dry_run"]:
            self.stdout.write(NOTHING_ORDERED)
            return None
        runs = [run for run in [unfinished_run(arena=arena, digests=[spec.digest])] if run]
        for run in runs:
            go_on(run=run, now=timezone.now())
        self._probe(spec, asks=order is not None)
        if order is not None:
            runs.append(order_run(order=order, cap=options["cap"], now=timezone.now()))
        if not self._through(runs, options):
            return None
        return measure_arena(epoch=register_judge(spec=spec), arena=arena, now=timezone.now())

    # -- Both ----------------------------------------------------------------------------------

    def _probe(self, spec: JudgeSpec, *, asks: bool) -> None:
        if asks:
            probe_judges(specs=[spec], now=timezone.now())

    def _through(self, runs: list[Run], options: dict[str, Any]) -> bool:
        """Wait until the runs are through, unless told not to."""
        if not options["no_wait"]:
            return wait_for(runs, self.stdout, self.stderr)
        if runs and (trouble := ring()):
            self.stderr.write(trouble)
        self.stdout.write("Ordered. The same command measures what is there by then.")
        return False

    def _tell(self, calibration: Calibration) -> None:
        for line in told(calibration):
            self.stdout.write(line)
        problems = trust_problems(calibration.epoch)
        self.stdout.write(
            f"{calibration.epoch} is {'not trusted' if problems else 'trusted'}: its votes "
            f"{'stay off' if problems else 'count on'} the combined board."
        )
        if calibration.epoch.judge.is_scripted:
            self.stdout.write("The scripted judge is arithmetic, not a real model.")


def _jury_measured(jury: Epoch, options: dict[str, Any]) -> Calibration:
    """A jury is measured by what it has decided; `judge` asks its members for more."""
    if not options["arena"]:
        raise CommandError("A jury is measured by its votes in an arena: --arena SLUG.")
    return measure_arena(epoch=jury, arena=_arena(options["arena"]), now=timezone.now())


def _check_numbers(options: dict[str, Any]) -> None:
    if options["repeat"] < 0 or options["repeat"] > 100:
        raise CommandError("--repeat must be between 0 and 100.")
    if options["limit"] is not None and options["limit"] < 1:
        raise CommandError("--limit must be at least 1.")
    if options["arena"] and options["repeat"]:
        raise CommandError("--repeat asks labels again; an arena's pairs are judged once.")


def _arena(slug: str) -> Arena:
    arena = Arena.objects.revealed().filter(slug=slug).first()
    if arena is None:
        raise CommandError(f"There is no arena {slug!r}.")
    return arena


def _verdicts_there(arena: Arena, epoch: Epoch | None) -> int:
    """Count the pairs of answers that people voted on and that the judge has settled here."""
    if epoch is None:
        return 0
    asked = epoch.judgements.filter(sample=0, run__arena=arena)
    settled = asked.exclude(state=Judgement.State.WAITING).values_list("responses", flat=True)
    return len(voted_on(arena).keys() & set(settled))


def _epoch_of(spec: JudgeSpec) -> Epoch | None:
    epochs = Epoch.objects.open().select_related("judge", "rater")
    return epochs.filter(judge__digest=spec.digest).first()

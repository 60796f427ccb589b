"""`manage.py calibrate`: measure a judge against human labels, human votes or honeypots."""

from argparse import ArgumentParser
from math import inf, isfinite
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from arena.actors import CLI
from arena.calls.money import dollars
from arena.errors import ServiceError
from arena.files.reader import FileError
from arena.management.commands import add_choices
from arena.management.terminal import find_arena
from arena.models import Arena, Run
from arena.services.runs import check_cap, order_run, resume_unfinished
from arena.tasks import enqueue_due_calls
from arena.validation import dollars_argument, join_names
from judges.core.spec import JudgeSpec
from judges.management.calibrations import describe_calibration, describe_raters
from judges.management.runs import wait_for_runs
from judges.management.switches import add_switches, switches_of
from judges.models import Calibration, Epoch, LabelItem, LabelSet
from judges.services.calibration import measure_arena, measure_labels
from judges.services.calibration_items import voted_on
from judges.services.honeypots import (
    PROMPTS,
    draft_honeypots,
    make_honeypots,
    measure_honeypots,
    reply_form_of,
)
from judges.services.label_files import LabelFile, LabelsError, read_labels
from judges.services.label_runs import (
    Outstanding,
    calls_for_item,
    find_outstanding,
    order_outstanding,
    quote_label_run,
)
from judges.services.labels import (
    add_labels,
    agreement_of_raters,
    drawn,
    items_of,
    selected,
    stored_labels,
)
from judges.services.orders import JudgeOrder
from judges.services.quotes import (
    Quote,
    measure_if_new,
    probe_judges,
    quote_for,
    smallest_quote,
)
from judges.services.registry import jury_named, register_judge, spec_named
from judges.services.runs import unfinished_run
from judges.services.trust import TrustPlace, trust_places
from judges.services.voted_pairs import labels_of_votes, order_of_voted
from judges.wording import SCRIPTED_JUDGE

NO_RUN = "No run was started (--dry-run)."


class Command(BaseCommand):
    help = "Measure how often a judge agrees with people, or how often honeypots fool it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("judge", metavar="JUDGE", help="a registered judge, or endpoint:model[@rubric]")
        against = parser.add_mutually_exclusive_group(required=True)
        against.add_argument(
            "--labels", type=Path, metavar="FILE", help="a table, JSON or JSON Lines"
        )
        against.add_argument(
            "--uploaded", metavar="TEAM/NAME", help="labels that a team has uploaded"
        )
        against.add_argument(
            "--arena",
            metavar="SLUG",
            help="human votes in an arena; the judge judges the same pairs, and its votes count on "
            "the judges' leaderboard like any others",
        )
        against.add_argument(
            "--honeypots", metavar="SLUG", help="honeypots built from the answers of an arena"
        )
        add(
            "--no-votes",
            action="store_true",
            help="with --arena: judge the pairs outside the arena, including those with the "
            "judge's own model family, and cast no votes",
        )
        add("--own-family", action="store_true", help="let the judge judge its own model family")
        add("--skip-bad", action="store_true", help="skip bad rows of the label file")
        add(
            "--agreed",
            action="store_true",
            help="with --labels: only items to which at least two people gave the same label",
        )
        add(
            "--per-score",
            type=int,
            metavar="N",
            help="with --labels: N random items of each score or label on which people agree",
        )
        add_choices(parser)
        add_switches(parser)
        add("--repeat", type=int, default=0, metavar="K", help="judge each item K more times")
        add("--limit", type=int, metavar="N", help="use N random items (for honeypots: prompts)")
        add("--seed", default="0", metavar="S", help="seed for drawing them; default: 0")
        add(
            "--everywhere",
            action="store_true",
            help="let these labels decide whether the judge is trusted in every arena where it is "
            "not measured",
        )
        add(
            "--scale",
            nargs=2,
            type=float,
            metavar=("LOW", "HIGH"),
            help="the scale of people's scores, to which the judge's are converted",
        )
        add("--cap", type=dollars_argument, metavar="USD", help="spending cap in dollars")
        add("--dry-run", action="store_true", help="print the quote and start nothing")
        add("--no-wait", action="store_true", help="start the run in the background")

    def handle(self, *args: Any, **options: Any) -> None:
        _check_numbers(options)
        try:
            jury = jury_named(options["judge"])
            if jury is not None:
                # By what it has decided: `judge` starts runs of its members.
                if not options["arena"]:
                    raise CommandError("A jury is measured by its votes in an arena: --arena SLUG.")
                arena = find_arena(options["arena"])
                self._print_calibration(measure_arena(epoch=jury, arena=arena, now=timezone.now()))
                return
            spec = _spec_of(options)
            if options["arena"] and not options["no_votes"]:
                calibration = self._against_arena(spec, options)
            else:
                calibration = self._against_items(spec, options)
        except (ServiceError, LabelsError, FileError) as error:
            raise CommandError(str(error)) from None
        if calibration is not None:
            self._print_calibration(calibration)

    def _against_items(self, spec: JudgeSpec, options: dict[str, Any]) -> Calibration | None:
        labels_in, items = self._items(spec, options)
        if labels_in is not None and _open_epoch(spec) is None:
            subjects = [subject for item in items for subject in calls_for_item(spec, item)]
            spec = _measured(spec, subjects, options)
        samples = range(options["repeat"] + 1)
        left = find_outstanding(spec=spec, epoch=_open_epoch(spec), items=items, samples=samples)
        quote = quote_label_run(spec=spec, items=left.missing)
        self._print_outstanding(quote, left, options["cap"])
        if labels_in is None or options["dry_run"]:
            self.stdout.write(NO_RUN)
            return None
        if left.missing:
            probe_judges(specs=[spec], now=timezone.now())
        epoch = register_judge(spec=spec)
        left = find_outstanding(spec=spec, epoch=epoch, items=items, samples=samples)
        now, cap = timezone.now(), options["cap"]
        runs = order_outstanding(epoch=epoch, outstanding=left, samples=samples, cap=cap, now=now)
        if not self._wait(runs, options):
            return None
        if options["honeypots"]:
            return measure_honeypots(epoch=epoch, labels_in=labels_in, now=timezone.now())
        return measure_labels(
            epoch=epoch,
            labels_in=labels_in,
            now=timezone.now(),
            everywhere=options["everywhere"],
            scale=tuple(options["scale"]) if options["scale"] else None,
        )

    def _items(
        self, spec: JudgeSpec, options: dict[str, Any]
    ) -> tuple[LabelSet | None, list[LabelItem]]:
        """The label set, and which of its items to judge; None while no set is saved."""
        if options["honeypots"]:
            return self._honeypots(spec, options)
        if options["uploaded"]:
            uploaded = _uploaded(options["uploaded"])
            items = list(uploaded.items.all())
            return uploaded, drawn(items, options["limit"], options["seed"])
        arena = find_arena(options["arena"]) if options["no_votes"] else None
        if arena is not None:
            name, file = f"Human votes in {arena.slug}", labels_of_votes(arena)
        else:
            name = options["labels"].name
            file = read_labels(
                options["labels"],
                columns=dict(options["column"]),
                values=dict(options["value"]),
                skip_bad=options["skip_bad"],
            )
            if options["agreed"] or options["per_score"]:
                name, file = self._select(name, file, options)
        self.stdout.write(f"{len(file.items)} items with {file.labels} labels.")
        if file.empty:
            self.stdout.write(f"Note: {file.empty} rows have a blank text and are left out.")
        for note in file.notes:
            self.stdout.write(f"Note: {note}")
        stored = stored_labels(file)
        if stored is None and not options["dry_run"]:
            stored = add_labels(file=file, name=name, arena=arena)
        items = items_of(file) if stored is None else list(stored.items.all())
        return stored, drawn(items, options["limit"], options["seed"])

    def _select(self, name: str, file: LabelFile, options: dict[str, Any]) -> tuple[str, LabelFile]:
        """Some items of a file, with a name of their own; people's agreement is that in all."""
        self.stdout.write(describe_raters(file.kind, agreement_of_raters(file)))
        agreed, per_score = options["agreed"], options["per_score"]
        chosen = selected(file, agreed=agreed, per_score=per_score, seed=options["seed"])
        name += ", agreed" if agreed else ""
        return f"{name}, {per_score} per score" if per_score else name, chosen

    def _honeypots(
        self, spec: JudgeSpec, options: dict[str, Any]
    ) -> tuple[LabelSet | None, list[LabelItem]]:
        arena = find_arena(options["honeypots"])
        prompts, seed, form = options["limit"] or PROMPTS, options["seed"], reply_form_of(spec)
        settings: dict[str, Any] = {"prompts": prompts, "seed": seed, "reply_form": form}
        if options["dry_run"]:
            return None, draft_honeypots(arena=arena, **settings)
        honeypots = make_honeypots(arena=arena, **settings)
        return honeypots, list(honeypots.items.all())

    def _print_outstanding(self, quote: Quote, left: Outstanding, cap: int | None) -> None:
        for sentence in left.left_out:
            self.stdout.write(f"Note: {sentence}")
        for run in left.runs:
            self.stdout.write(f"Run {run.pk} is unfinished ({run.state}).")
        if left.missing:
            self._print_quote(quote, cap)
        else:
            self.stdout.write("There is nothing new to judge.")

    def _against_arena(self, spec: JudgeSpec, options: dict[str, Any]) -> Calibration | None:
        arena, epoch = find_arena(options["arena"]), _open_epoch(spec)
        order = _order_of_voted(spec, arena, epoch, options)
        if order is not None and epoch is None:
            spec = _measured(spec, list(order.members[0].calls), options)
            order = _order_of_voted(spec, arena, epoch, options)
        if epoch is not None:
            settled = epoch.judgements.settled().filter(sample=0, run__arena=arena)
            judged = voted_on(arena).keys() & set(settled.values_list("responses", flat=True))
            if judged:
                what = f"{len(judged)} of the pairs with human votes"
                self.stdout.write(f"It has already judged {what}.")
        if order is not None:
            self._print_order(order, options["cap"])
        if options["dry_run"]:
            self.stdout.write(NO_RUN)
            return None
        unfinished = unfinished_run(arena=arena, digests=[spec.digest])
        runs = [] if unfinished is None else [unfinished]
        for run in runs:
            resume_unfinished(run=run, now=timezone.now())
        if order is not None:
            probe_judges(specs=[spec], now=timezone.now())
            runs.append(order_run(order=order, cap=options["cap"], now=timezone.now()))
        if not self._wait(runs, options):
            return None
        return measure_arena(epoch=register_judge(spec=spec), arena=arena, now=timezone.now())

    def _print_order(self, order: JudgeOrder, cap: int | None) -> None:
        for sentence in order.left_out:
            self.stdout.write(f"Note: {sentence}")
        self._print_quote(quote_for(order), cap)
        self.stdout.write("Its votes count on the judges' leaderboard like any others.")

    def _print_quote(self, quote: Quote, cap: int | None) -> None:
        judge = quote.judges[0]
        self.stdout.write(
            f"{judge.label}: {judge.comparisons} verdicts, {judge.calls} calls, about "
            f"{judge.tokens_in:,} tokens in and {judge.tokens_out:,} out."
        )
        for unpriced in quote.without_price:
            self.stdout.write(
                f"Cost: unknown: {unpriced.model} at {unpriced.endpoint} has no price."
            )
        if quote.expected is not None and quote.worst is not None:
            cost = f"{dollars(quote.expected)} expected, {dollars(quote.worst)} at most"
            about_cap = f"; the cap is {dollars(cap)}" if cap else ""
            self.stdout.write(f"Cost: {cost}{about_cap}.")

    def _wait(self, runs: list[Run], options: dict[str, Any]) -> bool:
        """Return whether the runs are done: False with --no-wait, and after Ctrl-C."""
        if not options["no_wait"]:
            return wait_for_runs(runs, self.stdout, self.stderr)
        if runs and (problem := enqueue_due_calls()):
            self.stderr.write(problem)
        self.stdout.write("Run started. Run this command again to measure its verdicts.")
        return False

    def _print_calibration(self, calibration: Calibration) -> None:
        for line in describe_calibration(calibration):
            self.stdout.write(line)
        for category in calibration.report["trust"].get("categories", []):
            trusted = "trusted" if category["trusted"] else "not trusted"
            name = category["category"] or "(none)"
            sentences = [f"{category['n_items']} items alone: {trusted}.", *category["failed"]]
            self.stdout.write(f"  Category {name}, {' '.join(sentences)}")
        for place in trust_places(calibration.epoch):
            self.stdout.write(_describe_place(calibration.epoch, place))
        if calibration.epoch.judge.is_scripted:
            self.stdout.write(SCRIPTED_JUDGE)


def _uploaded(name: str) -> LabelSet:
    team, _, called = name.partition("/")
    found = LabelSet.objects.filter(team__slug=team, name=called).first()
    if found is None:
        known = LabelSet.objects.exclude(team=None).order_by("team__slug", "name")
        names = [f"{slug}/{other}" for slug, other in known.values_list("team__slug", "name")]
        raise CommandError(f"There are no labels {name}. Uploaded: {join_names(names) or 'none'}.")
    return found


def _describe_place(epoch: Epoch, place: TrustPlace) -> str:
    where = f"in {place.arena}" if place.arena else "in arenas where it is not measured"
    if place.is_trusted:
        return f"{epoch} is trusted {where}: its votes count on combined leaderboards there."
    failed = place.calibration and not place.calibration.trusted  # its reasons are already printed
    reason = "" if failed else f" {place.problems[0]}"
    return (
        f"{epoch} is not trusted {where}: its votes do not count on combined leaderboards there."
        f"{reason}"
    )


def _check_numbers(options: dict[str, Any]) -> None:
    low, high = options["scale"] or (0.0, 1.0)
    limit, is_whole = options["limit"], options["seed"].lstrip("-").isdecimal()
    in_votes = options["arena"] and not options["no_votes"]
    problems = {
        "--repeat must be between 0 and 100.": not 0 <= options["repeat"] <= 100,
        "--limit must be at least 1.": limit is not None and limit < 1,
        "--everywhere works only with --labels.": options["everywhere"] and not options["labels"],
        "--agreed and --per-score work only with --labels.": (
            (options["agreed"] or options["per_score"] is not None) and not options["labels"]
        ),
        "--per-score must be at least 1.": options["per_score"] is not None
        and options["per_score"] < 1,
        "--everywhere does not go with --agreed: items on which people agree are easier.": options[
            "everywhere"
        ]
        and options["agreed"],
        "--scale works only with labels, and takes two finite numbers.": options["scale"]
        and not ((options["labels"] or options["uploaded"]) and isfinite(high)),
        "--scale takes the lowest and the highest score, in that order.": not -inf < low < high,
        "--no-votes works only with --arena.": options["no_votes"] and not options["arena"],
        "With --examples, --seed must be a whole number.": options["examples"] is not None
        and not is_whole,
        "--repeat works only with labels; an arena's pairs are judged once.": in_votes
        and options["repeat"],
    }
    for sentence, is_met in problems.items():
        if is_met:
            raise CommandError(sentence)


def _spec_of(options: dict[str, Any]) -> JudgeSpec:
    return spec_named(options["judge"], switches_of(options["judge"], options), CLI)


def _order_of_voted(
    spec: JudgeSpec, arena: Arena, epoch: Epoch | None, options: dict[str, Any]
) -> JudgeOrder | None:
    return order_of_voted(
        arena=arena,
        spec=spec,
        epoch=epoch,
        limit=options["limit"],
        seed=options["seed"],
        own_family=options["own_family"],
    )


def _measured(spec: JudgeSpec, subjects: list[str], options: dict[str, Any]) -> JudgeSpec:
    """Return a new judge with the room that its model needs, after three requests to it."""
    if not options["dry_run"]:  # before a model is measured, which costs money
        check_cap(smallest_quote([spec]), options["cap"])
    learned = measure_if_new(spec=spec, subjects=subjects, now=timezone.now())
    return _spec_of(options) if learned else spec


def _open_epoch(spec: JudgeSpec) -> Epoch | None:
    epochs = Epoch.objects.open().select_related("judge", "rater")
    return epochs.filter(judge__digest=spec.digest).first()

"""SQL that is written out, because composing it with the ORM for every request took several times
longer than running it, and functions to run it. Each statement runs on both databases.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection
from django.db.models import Model

from arena.permissions import IS_VISIBLE

Row = tuple[Any, ...]
_turn = Lock()

# An issued comparison with what voting needs of its arena, its rater and its candidates. A private
# arena's are found by its team only, and by operators and holders of its link, who are let through.
ISSUED = f"""
    SELECT c.id, c.run_id, c.draw_probability, c.issued_at, c.expires_at, c.skipped_at,
        a.id, a.team_id, a.strengths, a.faults, a.reasons_first, a.voters, a.self_identifying,
        r.id, r.kind, r.user_id, r.arena_id, r.blocked_at,
        l.id, l.name, l.version, l.organisation, l.disclosed_at,
        o.id, o.name, o.version, o.organisation, o.disclosed_at,
        (SELECT count(*) FROM arena_vote v
            WHERE v.rater_id = c.rater_id AND v.arena_id = c.arena_id
            AND v.voided_at IS NULL AND v.comparison_id <> c.id) AS other_votes
    FROM arena_comparison c
    JOIN arena_arena a ON a.id = c.arena_id
    JOIN arena_rater r ON r.id = c.rater_id
    JOIN arena_candidate l ON l.id = c.left_id
    JOIN arena_candidate o ON o.id = c.right_id
    WHERE c.key = %(key)s AND a.slug = %(slug)s AND c.issued_at IS NOT NULL
        AND {IS_VISIBLE}
"""  # noqa: S608  (made of constants alone)
# Why vote v on comparison c in arena a does not count, by the arena's rules; NULL if it does. Held
# votes follow none of them. A pair issued without being drawn was chosen by its rater, who may know
# its names.
UNCOUNTED = """
    CASE
        WHEN c.repeats_id IS NOT NULL THEN 'repeat'
        WHEN v.rushed THEN 'rushed'
        WHEN c.issued_at IS NOT NULL AND c.draw_probability IS NULL
            AND v.channel IN ('browser', 'signed_in', 'invited') THEN 'chosen'
        WHEN v.channel = 'token' AND a.visibility = 'public' AND NOT a.counts_tokens THEN 'channel'
        WHEN c.names_itself AND a.self_identifying = 'drop' THEN 'named'
        WHEN v.channel IN ('browser', 'signed_in')
            AND (a.counts = 'invited' OR a.counts = 'verified' AND NOT v.verified) THEN 'tier'
    END
"""
# A vote and a skip sent at the same time take turns, and so do two tabs that ask for a pair.
LOCK_COMPARISON = "SELECT id FROM arena_comparison WHERE id = %s FOR NO KEY UPDATE"
LOCK_RATER = "SELECT id FROM arena_rater WHERE id = %s FOR NO KEY UPDATE"
# Insert a vote with its origin, unless the rater has ever voted on the comparison or skipped it.
#
# Nobody can look at both answers in less time than half a second, plus one second per 4,000
# characters, but at most 1.5 seconds: a faster vote is rushed. The voting page asks for a second
# press within twice that time. The texts of slower votes are not read, which saves time.
#
# MATERIALIZED: computed once, not wherever UNCOUNTED refers to it.
CAST = f"""
    WITH known AS (
        SELECT c.id AS comparison_id, c.arena_id, c.left_response_id, c.right_response_id,
            r.id AS rater_id, r.user_id, cast(%(seconds)s AS double precision) AS seconds,
            CASE
                WHEN r.kind <> 'person' THEN ''
                WHEN r.arena_id IS NOT NULL THEN 'token'
                WHEN r.user_id IS NULL THEN 'browser'
                WHEN EXISTS (SELECT 1 FROM arena_membership m
                    WHERE m.team_id = a.team_id AND m.user_id = r.user_id) THEN 'invited'
                ELSE 'signed_in'
            END AS channel
        FROM arena_comparison c
        JOIN arena_arena a ON a.id = c.arena_id
        JOIN arena_rater r ON r.id = %(rater)s
        WHERE c.id = %(comparison)s AND c.skipped_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM arena_vote WHERE comparison_id = c.id AND rater_id = r.id)
    ),
    origin AS MATERIALIZED (
        SELECT comparison_id, arena_id, rater_id, seconds, channel,
            channel = 'invited' OR user_id IS NOT NULL AND (
                EXISTS (SELECT 1 FROM account_emailaddress e
                    WHERE e.user_id = known.user_id AND e.verified)
                OR EXISTS (SELECT 1 FROM socialaccount_socialaccount s
                    WHERE s.user_id = known.user_id)) AS verified,
            CASE WHEN seconds < 1.5 THEN
                seconds < 0.5 + (
                    SELECT coalesce(sum(length(t.text)), 0) FROM arena_response t
                    WHERE t.id IN (left_response_id, right_response_id)) / 4000.0
            ELSE false END AS rushed
        FROM known
    )
    INSERT INTO arena_vote
        (arena_id, comparison_id, rater_id, outcome, preference, cast_at, void_reason,
            seconds, network, channel, verified, rushed, uncounted)
    SELECT v.arena_id, v.comparison_id, v.rater_id, %(outcome)s, %(preference)s, %(now)s, '',
        v.seconds, %(network)s, v.channel, v.verified, v.rushed, {UNCOUNTED}
    FROM origin v
    JOIN arena_comparison c ON c.id = v.comparison_id
    JOIN arena_arena a ON a.id = v.arena_id
    WHERE true
    ON CONFLICT DO NOTHING
    RETURNING *
"""  # noqa: S608  (made of constants alone)
# The same rules, applied again to an arena's votes, except those that are voided or held, and
# imported repeats and chosen pairs, because files do not say enough to recognise them.
RULING = f"""
    (SELECT {UNCOUNTED} FROM arena_comparison c
        JOIN arena_arena a ON a.id = c.arena_id WHERE c.id = v.comparison_id)
"""  # noqa: S608  (made of constants alone)
APPLY_RULES = f"""
    UPDATE arena_vote AS v SET uncounted = {RULING}
    WHERE arena_id = %s AND voided_at IS NULL AND hold_id IS NULL
        AND coalesce(uncounted, '') NOT IN ('repeat', 'chosen')
        AND coalesce(uncounted, '') <> coalesce({RULING}, '')
    RETURNING id
"""  # noqa: S608  (made of constants alone)
# Held votes count again, unless the rules leave them out.
RELEASE = f"""
    UPDATE arena_vote AS v SET hold_id = NULL, uncounted = {RULING}
    WHERE hold_id = %s AND voided_at IS NULL
    RETURNING id
"""  # noqa: S608  (made of constants alone)
# Count one use of a key. Starts a new window if the last one has passed.
COUNT = """
    INSERT INTO arena_ratelimit AS kept (key, window_started_at, hits)
    VALUES (%(key)s, %(now)s, 1)
    ON CONFLICT (key) DO UPDATE SET
        hits = CASE WHEN kept.window_started_at <= %(since)s THEN 1 ELSE kept.hits + 1 END,
        window_started_at = CASE
            WHEN kept.window_started_at <= %(since)s THEN excluded.window_started_at
            ELSE kept.window_started_at END
    RETURNING hits, window_started_at
"""

# The candidates in an arena of the rater's own teams; those without a team are the arena's. Raters
# named in an arena are of its team, whose program votes for them. `also` is the other rater of the
# same browser (0: none): anonymous if this one is signed in, and the other way round.
OWN = """
    SELECT c.id FROM arena_rater r
    JOIN arena_arena a ON a.id = %(arena)s
    JOIN arena_candidate c ON c.arena_id = a.id
    WHERE r.id IN (%(rater)s, %(also)s) AND coalesce(c.team_id, a.team_id) IN (
        SELECT team_id FROM arena_membership WHERE user_id = r.user_id
        UNION ALL SELECT a.team_id WHERE r.arena_id = a.id)
"""
# What a page shows of a prompt and the answers of two candidates, the lower id first.
ANSWERED = """
    p.id, p.html, p.html_version, low.id, low.names_itself, low.html, low.html_version,
    high.id, high.names_itself, high.html, high.html_version
"""
# Nobody can say which of two equal answers is better. Of answers in steps, the steps count too.
DIFFERENT = """
    (low.text <> high.text OR coalesce(CAST(low.messages AS text), '')
        <> coalesce(CAST(high.messages AS text), ''))
"""
# The rater's open comparison; whether any pair is demanded of them; and, whatever these are, the
# pair into whose share of the summed weights a random number from 0 to 1 falls, with a prompt that
# both candidates answered, not equally, and that the rater has not seen with them in either order
# (NULL if no pair is left).
#
# Nobody gets a pair of a candidate of their own team and one of another: they might know theirs.
# What either rater of a browser has seen, neither gets.
#
# So that nobody recognises a candidate by meeting it again and again, a pair is not drawn
# - if it shows a candidate for the third time running (`broken`: 2),
# - if it was one of the last five, or shows a candidate that had twice its even share of the last
#   SESSION pairs (`broken`: 1),
# unless all pairs that are left break such a rule; then one is drawn that breaks no graver rule
# than necessary. With up to FEW candidates the only rule is: not the last pair again. `ago` numbers
# the pairs that were drawn, the latest first; those that somebody asked for do not count.
#
# What keeps PostgreSQL fast: min(v.id) instead of NOT EXISTS, or it would read all votes.
# (SELECT %(rater)s) hides the rater from its planner: with one estimate for all raters it plans
# once, not for each pair. Sets of candidates are looked up and not joined. `mine` is not limited to
# the arena, or it would be thought so small that all pairs are compared with each of its rows. The
# lower candidate's prompts are shuffled first, because usually the first of them will do.
SESSION = 42
FEW = 4
# `{{also}}`: a further condition on pair `p`.
DRAW = f"""
    WITH own AS ({OWN}),
    waiting AS (
        SELECT (
            SELECT min(c.id) FROM arena_comparison c
            JOIN arena_prompt q ON q.id = prompt_id AND q.retired_at IS NULL
            JOIN arena_candidate l ON l.id = left_id AND l.retired_at IS NULL
            JOIN arena_candidate o ON o.id = right_id AND o.retired_at IS NULL
            WHERE rater_id = (SELECT %(rater)s) AND c.arena_id = %(arena)s
            AND c.id NOT IN (%(skip_0)s, %(skip_1)s, %(skip_2)s)
            AND expires_at > %(now)s AND skipped_at IS NULL
            AND (SELECT min(v.id) FROM arena_vote v WHERE v.comparison_id = c.id) IS NULL) AS id,
        EXISTS (
            SELECT 1 FROM arena_pairdemand WHERE arena_id = %(arena)s AND remaining > 0
            AND (rater_id IS NULL OR rater_id = %(rater)s)) AS demanded
    ),
    mine AS (
        SELECT q.id AS prompt_id,
            CASE WHEN left_id < right_id THEN left_id ELSE right_id END AS low_id,
            CASE WHEN left_id < right_id THEN right_id ELSE left_id END AS high_id,
            CASE WHEN draw_probability > 0 AND run_id IS NULL THEN row_number() OVER (
                PARTITION BY c.arena_id, draw_probability > 0 AND run_id IS NULL
                ORDER BY c.id DESC) END AS ago
        FROM arena_comparison c
        LEFT JOIN arena_prompt q ON q.id = prompt_id AND q.retired_at IS NULL
            AND left_response_id IS NOT NULL AND repeats_id IS NULL
        WHERE rater_id IN ((SELECT %(rater)s), (SELECT %(also)s))
    ),
    seen AS (
        SELECT low_id, high_id, count(DISTINCT prompt_id) AS n, min(ago) AS ago
        FROM mine GROUP BY 1, 2
    ),
    field AS (
        SELECT c.id, CASE WHEN count(*) OVER () > {FEW} THEN 5 ELSE 1 END AS apart,
            count(*) OVER () > {FEW} AND count(CASE WHEN m.ago < 3 THEN 1 END) = 2 AS twice,
            count(*) OVER () * count(m.ago) >= 4 * {SESSION} AS often
        FROM arena_candidate c
        LEFT JOIN mine m ON m.ago <= {SESSION} AND c.id IN (m.low_id, m.high_id)
        WHERE c.arena_id = %(arena)s AND c.retired_at IS NULL
        GROUP BY c.id
    ),
    able AS (
        SELECT p.id, p.low_id, p.high_id, p.weight, CASE
            WHEN p.low_id IN (SELECT id FROM field WHERE twice)
                OR p.high_id IN (SELECT id FROM field WHERE twice) THEN 2
            WHEN p.low_id IN (SELECT id FROM field WHERE often)
                OR p.high_id IN (SELECT id FROM field WHERE often)
                OR s.ago <= (SELECT max(apart) FROM field) THEN 1
            ELSE 0 END AS broken
        FROM arena_pair p
        LEFT JOIN seen s ON s.low_id = p.low_id AND s.high_id = p.high_id
        WHERE p.arena_id = %(arena)s AND p.weight > 0 AND p.shared_prompts > coalesce(s.n, 0)
            AND (p.low_id IN (SELECT id FROM own)) = (p.high_id IN (SELECT id FROM own))
            {{also}}
    ),
    pairs AS (
        SELECT id, low_id, high_id, weight, sum(weight) OVER (ORDER BY id) AS upto
        FROM able WHERE broken = (SELECT min(broken) FROM able)
    ),
    drawn AS (
        SELECT id, low_id, high_id, weight / (SELECT max(upto) FROM pairs) AS probability
        FROM pairs
        WHERE upto > %(random)s * (SELECT max(upto) FROM pairs)
        ORDER BY upto LIMIT 1
    )
"""  # noqa: S608  (made of constants alone)
NEXT = f"""
    {DRAW.format(also="")},
    matchup AS (
        SELECT d.id AS pair_id, d.low_id, d.high_id, d.probability, {ANSWERED}
        FROM drawn d
        JOIN (
            SELECT prompt_id, random() AS turn FROM arena_response
            WHERE candidate_id = (SELECT low_id FROM drawn) ORDER BY turn
        ) t ON true
        JOIN arena_response low ON low.prompt_id = t.prompt_id AND low.candidate_id = d.low_id
        JOIN arena_response high ON high.prompt_id = low.prompt_id
        JOIN arena_prompt p ON p.id = low.prompt_id
        WHERE high.candidate_id = d.high_id AND p.retired_at IS NULL AND {DIFFERENT}
            AND d.low_id IN (SELECT id FROM field) AND d.high_id IN (SELECT id FROM field)
            AND NOT EXISTS (SELECT 1 FROM arena_import i WHERE i.revealed_at IS NULL
                AND i.id IN (p.source_id, low.source_id, high.source_id))
            AND NOT EXISTS (SELECT 1 FROM mine s WHERE s.prompt_id = p.id
                AND s.low_id = d.low_id AND s.high_id = d.high_id)
        ORDER BY turn LIMIT 1
    )
    SELECT w.id, w.demanded, m.* FROM waiting w LEFT JOIN matchup m ON true
"""  # noqa: S608  (made of constants alone)
NEXT = " ".join(NEXT.split())  # psycopg keeps only texts of up to 4,096 characters parsed
# The pair for a live question, drawn by the same rules; not of a candidate that is paused.
LIVE_PAIR = DRAW.format(
    also="""AND NOT EXISTS (
        SELECT 1 FROM arena_runrequester a JOIN arena_run r ON r.id = a.run_id
        WHERE r.arena_id = p.arena_id AND r.kind = 'live' AND r.state = 'open'
            AND a.paused_at IS NOT NULL
            AND a.requester IN ('candidate:' || p.low_id, 'candidate:' || p.high_id))"""
)
LIVE_PAIR += "SELECT id, low_id, high_id, probability FROM drawn"
# A prompt for a pair that is demanded, by the same rules. `unseen`: the rater, or 0 if they may
# have seen it.
DEMANDED = f"""
    WITH own AS ({OWN})
    SELECT {ANSWERED}
    FROM arena_response low
    JOIN arena_response high ON high.prompt_id = low.prompt_id
    JOIN arena_prompt p ON p.id = low.prompt_id
    WHERE low.candidate_id = %(low)s AND high.candidate_id = %(high)s
        AND p.id = coalesce(%(prompt)s, p.id) AND p.retired_at IS NULL AND {DIFFERENT}
        AND NOT EXISTS (
            SELECT 1 FROM arena_candidate
            WHERE id IN (%(low)s, %(high)s) AND retired_at IS NOT NULL)
        AND NOT EXISTS (
            SELECT 1 FROM arena_import i WHERE i.revealed_at IS NULL
            AND i.id IN (p.source_id, low.source_id, high.source_id))
        AND p.id NOT IN (
            SELECT s.prompt_id FROM arena_comparison s
            WHERE s.rater_id IN (%(unseen)s, %(also)s) AND s.prompt_id IS NOT NULL
            AND s.left_id IN (%(low)s, %(high)s) AND s.right_id IN (%(low)s, %(high)s))
        AND (low.candidate_id IN (SELECT id FROM own)) = (high.candidate_id IN (SELECT id FROM own))
    ORDER BY random()
    LIMIT 1
"""  # noqa: S608  (made of constants alone)
# A coin decides, unless one side is MOST_UNEVEN ahead (Soares and Wu 1983, "Some restricted
# randomization rules in sequential designs"). With a smaller bound, whoever knows the sides of the
# last showings, which are public, could often tell the next ones: one in 2 MOST_UNEVEN is forced.
MOST_UNEVEN = 10
LOW_GOES_LEFT = f"""
    (low_left - high_left <= -{MOST_UNEVEN}
        OR low_left - high_left < {MOST_UNEVEN} AND %(coin)s)
"""
TAKE_SIDE = f"""
    UPDATE arena_pair SET
        low_went_left = {LOW_GOES_LEFT},
        low_left = low_left + cast({LOW_GOES_LEFT} AS integer),
        high_left = high_left + 1 - cast({LOW_GOES_LEFT} AS integer)
    WHERE id = %(pair)s
    RETURNING low_went_left
"""  # noqa: S608  (made of constants alone)


def one(statement: str, *values: Any, **named: Any) -> Row | None:
    """Run a statement with values in order, or with named ones; return its first row, or None."""
    with connection.cursor() as cursor:
        cursor.execute(statement, _all_stored(values, named))
        row = cursor.fetchone()
    return row and tuple(map(_read, row))


def rows(statement: str, *values: Any, **named: Any) -> list[Row]:
    """Like `one`, but return all rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, _all_stored(values, named))
        return [tuple(map(_read, row)) for row in cursor.fetchall()]


def lock(statement: str, pk: int) -> None:
    """Lock a row until the end of the transaction; SQLite has one writer at a time anyway."""
    if connection.features.has_select_for_update:
        one(statement, pk)


@contextmanager
def turn() -> Iterator[None]:
    """Wait until no other thread of this process votes, if the database is SQLite.

    Who waits for SQLite asks again every 100 ms, and it serves whoever asks first. Of 32 threads
    that vote beside an import, one in a thousand would wait for more than five seconds.
    """
    if connection.vendor != "sqlite":
        yield
        return
    if not _turn.acquire(timeout=connection.settings_dict["OPTIONS"]["timeout"]):
        raise OperationalError("database is locked")
    try:
        yield
    finally:
        _turn.release()


def _all_stored(values: Row, named: dict[str, Any]) -> list[Any] | dict[str, Any]:
    if named:
        return {name: stored(value) for name, value in named.items()}
    return [stored(value) for value in values]


def stored(value: Any) -> Any:
    """Return the value as this database stores it: SQLite has neither times nor UUIDs."""
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, UUID) and not connection.features.has_native_uuid_field:
        return value.hex
    return value


def _read(value: Any) -> Any:
    """Return a stored value as Django would: SQLite's times are in UTC without saying so."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def count_rows_anew(*models: type[Model]) -> None:
    """Let PostgreSQL plan for tables that have just grown, before autovacuum gets to them."""
    if connection.vendor == "postgresql":
        names = ", ".join(connection.ops.quote_name(model._meta.db_table) for model in models)
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {names}")

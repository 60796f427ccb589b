"""The SQL behind each vote, written for both databases, and functions to run it.

Composing these statements with the ORM for every request took several times longer than running
them, and PostgreSQL can plan a constant text once. Less frequent queries are left to the ORM.
"""

from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Model

Row = tuple[Any, ...]

# -- Casting ---------------------------------------------------------------------------------------

# The comparison's fields, in the order of the model; ISSUED then selects fields of related rows.
ISSUED_FIELDS = [
    "id",
    "key",
    "arena_id",
    "rater_id",
    "prompt_id",
    "left_id",
    "right_id",
    "run_id",
    "draw_probability",
    "issued_at",
    "expires_at",
    "skipped_at",
]
ISSUED = f"""
    SELECT c.{", c.".join(ISSUED_FIELDS)},
        a.voters, a.team_id, a.self_identifying, r.kind, r.user_id, r.arena_id, r.blocked_at,
        l.name, l.version, l.disclosed_at, o.name, o.version, o.disclosed_at,
        (SELECT count(*) FROM arena_vote v
            WHERE v.rater_id = c.rater_id AND v.arena_id = c.arena_id
            AND v.voided_at IS NULL AND v.comparison_id <> c.id)
    FROM arena_comparison c
    JOIN arena_arena a ON a.id = c.arena_id
    JOIN arena_rater r ON r.id = c.rater_id
    JOIN arena_candidate l ON l.id = c.left_id
    JOIN arena_candidate o ON o.id = c.right_id
    WHERE c.key = %(pair)s AND a.slug = %(slug)s AND c.issued_at IS NOT NULL
        AND (a.visibility <> 'private' OR %(operator)s OR a.team_id = %(team)s OR EXISTS (
            SELECT 1 FROM arena_membership m WHERE m.team_id = a.team_id AND m.user_id = %(user)s))
"""  # noqa: S608  (made of constants alone)
# Why a vote does not count, by the arena's rules; NULL if it does. Held votes follow none of them.
# A pair issued without being drawn was chosen by its rater, who may know its names.
UNCOUNTED = """
    CASE
        WHEN {1}.repeats_id IS NOT NULL THEN 'repeat'
        WHEN {0}.rushed THEN 'rushed'
        WHEN {1}.issued_at IS NOT NULL AND {1}.draw_probability IS NULL
            AND {0}.channel IN ('browser', 'signed_in', 'invited') THEN 'chosen'
        WHEN {0}.channel = 'token' AND {2}.visibility = 'public' AND NOT {2}.counts_tokens
            THEN 'channel'
        WHEN {1}.names_itself AND {2}.self_identifying = 'drop' THEN 'named'
        WHEN {0}.channel IN ('browser', 'signed_in')
            AND ({2}.counts = 'invited' OR {2}.counts = 'verified' AND NOT {0}.verified) THEN 'tier'
    END
"""
# Nobody can look at both answers in less time than this: half a second, plus one second per 4,000
# characters, but at most 1.5 seconds. The voting page asks for a second press within twice that
# time. The texts of slower votes are not read, which saves time.
CHARACTERS = """
    (SELECT coalesce(sum(length(t.text)), 0) FROM arena_response t
        WHERE t.id IN (left_response_id, right_response_id))
"""
RUSHED = f"""
    CASE WHEN seconds < 1.5 THEN seconds < 0.5 + {CHARACTERS} / 4000.0 ELSE false END
"""
# The statement that casts a vote also finds its origin and whether it counts. MATERIALIZED:
# computed once, not wherever UNCOUNTED refers to it.
VOTE = f"""
    known AS (
        SELECT c.id AS comparison_id, r.id AS rater_id, r.user_id, c.arena_id,
            c.repeats_id, c.issued_at, c.draw_probability, c.names_itself,
            a.visibility, a.counts_tokens, a.self_identifying, a.counts,
            cast(%(seconds)s AS double precision) AS seconds,
            CASE
                WHEN r.kind <> 'person' THEN ''
                WHEN r.arena_id IS NOT NULL THEN 'token'
                WHEN r.user_id IS NULL THEN 'browser'
                WHEN EXISTS (SELECT 1 FROM arena_membership m
                    WHERE m.team_id = a.team_id AND m.user_id = r.user_id) THEN 'invited'
                ELSE 'signed_in'
            END AS channel,
            c.left_response_id, c.right_response_id
        FROM arena_comparison c
        JOIN arena_arena a ON a.id = c.arena_id
        JOIN arena_rater r ON r.id = %(rater)s
        WHERE c.id = %(comparison)s AND c.skipped_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM arena_vote WHERE comparison_id = c.id AND rater_id = r.id)
        {{0}}
    ),
    origin AS MATERIALIZED (
        SELECT comparison_id, rater_id, arena_id, repeats_id, issued_at, draw_probability,
            names_itself, visibility, counts_tokens, self_identifying, counts, seconds, channel,
            channel = 'invited' OR user_id IS NOT NULL AND (
                EXISTS (SELECT 1 FROM account_emailaddress e
                    WHERE e.user_id = known.user_id AND e.verified)
                OR EXISTS (SELECT 1 FROM socialaccount_socialaccount s
                    WHERE s.user_id = known.user_id)) AS verified,
            {RUSHED} AS rushed
        FROM known
    )
"""  # noqa: S608  (made of constants alone)
INSERT_VOTE = f"""
    INSERT INTO arena_vote
        (arena_id, comparison_id, rater_id, outcome, preference, cast_at, void_reason,
            seconds, network, channel, verified, rushed, uncounted)
    SELECT arena_id, comparison_id, rater_id, %(outcome)s, %(preference)s, %(now)s, '',
        seconds, %(network)s, channel, verified, rushed, {UNCOUNTED.format(*["origin"] * 3)}
    FROM origin
    WHERE true
    ON CONFLICT DO NOTHING
    RETURNING id, uncounted
"""  # noqa: S608  (made of constants alone)
CAST = f"WITH {VOTE.format('')} {INSERT_VOTE}"
# The lock makes a skip wait that is sent at the same time. PostgreSQL only.
LOCKED_VOTE = VOTE.format("FOR NO KEY UPDATE OF c")
CAST_WITH_LOCK = f"WITH {LOCKED_VOTE} {INSERT_VOTE}"
# Starts a new window if the last one has passed.
COUNT = """
    INSERT INTO arena_ratelimit AS kept (key, window_started_at, hits)
    SELECT %(key)s, %(now)s, 1 {0}
    ON CONFLICT (key) DO UPDATE SET
        hits = CASE WHEN kept.window_started_at <= %(since)s THEN 1 ELSE kept.hits + 1 END,
        window_started_at = CASE
            WHEN kept.window_started_at <= %(since)s THEN excluded.window_started_at
            ELSE kept.window_started_at END
    RETURNING hits, window_started_at
"""
# These also lock the rater's row until the end of the transaction, so PostgreSQL only.
COUNT_AND_LOCK = COUNT.format(
    "FROM (SELECT id FROM arena_rater WHERE id = %(rater)s FOR NO KEY UPDATE) AS locked"
)
CAST_AND_COUNT = f"""
    WITH {LOCKED_VOTE}, counted AS ({COUNT_AND_LOCK}), vote AS ({INSERT_VOTE})
    SELECT vote.id, vote.uncounted, hits FROM counted LEFT JOIN vote ON true
"""  # noqa: S608  (made of constants alone)
# ISSUED and CAST_AND_COUNT in one round trip: the vote is on what is found.
_FIND_AND_CAST = CAST_AND_COUNT.replace("WITH", f"WITH issued AS ({ISSUED}),", 1)
for _name, _found in {
    "SELECT vote.id": "SELECT issued.*, vote.id",
    "FROM counted": "FROM issued, counted",
    "%(rater)s": "(SELECT rater_id FROM issued)",
    "%(comparison)s": "(SELECT id FROM issued)",
    "%(key)s": "(SELECT 'issue:' || rater_id FROM issued)",
    "%(seconds)s": "least(%(seconds)s, extract(epoch FROM greatest(%(now)s - c.issued_at, '0')))",
}.items():
    _FIND_AND_CAST = _FIND_AND_CAST.replace(_name, _found)
# The same rules, applied again to an arena's votes, except those that are voided or held, and
# imported repeats and chosen pairs, because files do not say enough to recognise them.
RULING = f"""
    (SELECT {UNCOUNTED.format("arena_vote", "c", "a")} FROM arena_comparison c
        JOIN arena_arena a ON a.id = c.arena_id WHERE c.id = arena_vote.comparison_id)
"""  # noqa: S608  (made of constants alone)
APPLY_RULES = f"""
    UPDATE arena_vote SET uncounted = {RULING}
    WHERE arena_id = %s AND voided_at IS NULL AND hold_id IS NULL
        AND coalesce(uncounted, '') NOT IN ('repeat', 'chosen')
        AND coalesce(uncounted, '') <> coalesce({RULING}, '')
    RETURNING id
"""  # noqa: S608  (made of constants alone)
# Held votes count again, unless the rules leave them out.
RELEASE = f"""
    UPDATE arena_vote SET hold_id = NULL, uncounted = {RULING}
    WHERE hold_id = %s AND voided_at IS NULL
    RETURNING id
"""  # noqa: S608  (made of constants alone)

# -- Issuing ---------------------------------------------------------------------------------------

LOCK_RATER = "SELECT id FROM arena_rater WHERE id = %s FOR NO KEY UPDATE"
# The rater's open comparison, and whether any pair is demanded of them. Selecting a vote's id
# instead of NOT EXISTS keeps PostgreSQL from reading all votes. (SELECT %(rater)s), here and below,
# hides the rater from its planner: with one estimate for all raters it plans once, not for each
# pair.
WAITING = """
    SELECT
        (SELECT min(c.id) FROM arena_comparison c
            JOIN arena_prompt q ON q.id = c.prompt_id AND q.retired_at IS NULL
            JOIN arena_candidate l ON l.id = c.left_id AND l.retired_at IS NULL
            JOIN arena_candidate o ON o.id = c.right_id AND o.retired_at IS NULL
            WHERE c.rater_id = (SELECT %(rater)s) AND c.arena_id = %(arena)s
            AND c.id NOT IN (%(skip_0)s, %(skip_1)s, %(skip_2)s)
            AND c.expires_at > %(now)s AND c.skipped_at IS NULL
            AND (SELECT min(v.id) FROM arena_vote v WHERE v.comparison_id = c.id) IS NULL) AS id,
        EXISTS (SELECT 1 FROM arena_pairdemand WHERE arena_id = %(arena)s AND remaining > 0
            AND (rater_id IS NULL OR rater_id = %(rater)s)) AS demanded
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
# Nobody gets a pair of a candidate of their own team and one of another: they might know theirs.
IMPARTIAL = "({0} IN (SELECT id FROM own)) = ({1} IN (SELECT id FROM own))"
# What either rater of a browser has seen, neither gets.
EITHER = "IN ((SELECT {0}), (SELECT %(also)s))"
# The pairs with prompts that the rater has not seen, with the running sum of their weights.
PAIRS_LEFT = f"""
    SELECT p.id, p.low_id, p.high_id, p.weight, sum(p.weight) OVER (ORDER BY p.id) AS upto
    FROM arena_pair p
    LEFT JOIN (
        SELECT
            CASE WHEN c.left_id < c.right_id THEN c.left_id ELSE c.right_id END AS low_id,
            CASE WHEN c.left_id < c.right_id THEN c.right_id ELSE c.left_id END AS high_id,
            count(DISTINCT c.prompt_id) AS n
        FROM arena_comparison c
        JOIN arena_prompt q ON q.id = c.prompt_id AND q.retired_at IS NULL
        WHERE c.rater_id {EITHER.format("%(rater)s")} AND c.arena_id = %(arena)s
            AND c.left_response_id IS NOT NULL AND c.repeats_id IS NULL
        GROUP BY 1, 2
    ) seen ON seen.low_id = p.low_id AND seen.high_id = p.high_id
    WHERE p.arena_id = %(arena)s AND p.weight > 0 AND p.shared_prompts > coalesce(seen.n, 0)
        AND {IMPARTIAL.format("p.low_id", "p.high_id")}
"""  # noqa: S608  (made of constants alone)
ANSWERED = """
    p.id AS prompt_id, p.html, p.html_version,
    low.id AS low_response_id, low.names_itself AS low_names, low.html AS low_html,
    low.html_version AS low_version,
    high.id AS high_response_id, high.names_itself AS high_names, high.html AS high_html,
    high.html_version AS high_version
"""
# Nobody can say which of two equal answers is better. Of answers in steps, the steps count too.
DIFFERENT = """
    (low.text <> high.text OR coalesce(CAST(low.messages AS text), '')
        <> coalesce(CAST(high.messages AS text), ''))
"""
# A prompt that both candidates answered, not equally, and that the rater has not seen with them in
# either order.
# The candidates are looked up and not joined: planning two more joins took longer than all else.
# What the rater has seen depends on no row, so it is read once.
UNSEEN = f"""
    p.retired_at IS NULL AND {DIFFERENT}
    AND NOT EXISTS (
        SELECT 1 FROM arena_candidate WHERE id IN ({{0}}, {{1}}) AND retired_at IS NOT NULL)
    AND NOT EXISTS (
        SELECT 1 FROM arena_import i WHERE i.revealed_at IS NULL
        AND i.id IN (p.source_id, low.source_id, high.source_id))
    AND p.id NOT IN (
        SELECT s.prompt_id FROM arena_comparison s
        WHERE s.rater_id {EITHER.format("%(unseen)s")} AND s.prompt_id IS NOT NULL
        AND s.left_id IN ({{0}}, {{1}}) AND s.right_id IN ({{0}}, {{1}}))
"""  # noqa: S608  (made of constants alone)
JOINED = """
    JOIN arena_response high ON high.prompt_id = low.prompt_id
    JOIN arena_prompt p ON p.id = low.prompt_id
"""
DEMANDED = f"""
    WITH own AS ({OWN})
    SELECT {ANSWERED}
    FROM arena_response low {JOINED}
    WHERE low.candidate_id = %(low)s AND high.candidate_id = %(high)s
        AND p.id = coalesce(%(prompt)s, p.id)
        AND {UNSEEN.format("%(low)s", "%(high)s")}
        AND {IMPARTIAL.format("low.candidate_id", "high.candidate_id")}
    ORDER BY random()
    LIMIT 1
"""  # noqa: S608  (made of constants alone)
# The pair into whose share of the summed weights a random number from 0 to 1 falls, with a prompt.
# The lower candidate's prompts are shuffled first, because usually the first of them will do.
DRAWN = "(SELECT {0} FROM drawn)"
MATCHUP = f"""
    own AS ({OWN}), waiting AS ({WAITING}), pairs AS ({PAIRS_LEFT}),
    drawn AS (
        SELECT id, low_id, high_id, weight / (SELECT max(upto) FROM pairs) AS probability
        FROM pairs
        WHERE upto > %(random)s * (SELECT max(upto) FROM pairs)
        ORDER BY upto
        LIMIT 1
    ),
    matchup AS (
        SELECT d.id AS pair_id, d.low_id, d.high_id, d.probability, {ANSWERED}
        FROM drawn d
        JOIN (
            SELECT prompt_id, random() AS turn FROM arena_response
            WHERE candidate_id = {DRAWN.format("low_id")} ORDER BY turn
        ) t ON true
        JOIN arena_response low ON low.prompt_id = t.prompt_id AND low.candidate_id = d.low_id
        {JOINED}
        WHERE high.candidate_id = d.high_id
            AND {UNSEEN.format(DRAWN.format("low_id"), DRAWN.format("high_id"))}
        ORDER BY turn
        LIMIT 1
    )
"""  # noqa: S608  (made of constants alone)
# A coin decides, unless one side is MOST_UNEVEN ahead (Soares and Wu 1983, "Some restricted
# randomization rules in sequential designs"). With a smaller bound, whoever knows the sides of the
# last showings, which are public, could often tell the next ones: one in 2 MOST_UNEVEN is forced.
MOST_UNEVEN = 10
LOW_GOES_LEFT = f"""
    (low_left - high_left <= -{MOST_UNEVEN}
        OR low_left - high_left < {MOST_UNEVEN} AND %(coin)s)
"""
TAKE_SIDE_OF = f"""
    UPDATE arena_pair SET
        low_went_left = {LOW_GOES_LEFT},
        low_left = low_left + cast({LOW_GOES_LEFT} AS integer),
        high_left = high_left + 1 - cast({LOW_GOES_LEFT} AS integer)
    WHERE id = {{0}}
    RETURNING low_went_left
"""  # noqa: S608  (made of constants alone)
TAKE_SIDE = TAKE_SIDE_OF.format("%(pair)s")
DRAWN_FIELDS = [
    "key",
    "arena_id",
    "rater_id",
    "prompt_id",
    "draw_probability",
    "names_itself",
    "issued_at",
    "expires_at",
    "left_id",
    "right_id",
    "left_response_id",
    "right_response_id",
]
ISSUE_FIELDS = [*DRAWN_FIELDS, "run_id", "repeats_id"]
ISSUE = f"""
    INSERT INTO arena_comparison ({", ".join(ISSUE_FIELDS)})
    VALUES ({", ".join(["%s"] * len(ISSUE_FIELDS))})
    RETURNING id
"""  # noqa: S608  (made of constants alone)
# WAITING and, next to it, MATCHUP, whose columns are NULL if no pair is left.
_NEXT = f"""
    WITH {MATCHUP}
    SELECT w.id, w.demanded, NULL, NULL, m.* FROM waiting w LEFT JOIN matchup m ON true
"""  # noqa: S608  (made of constants alone)
# _NEXT, TAKE_SIDE and ISSUE in one round trip, unless a pair is waiting or demanded. SQLite cannot
# do that: it has no UPDATE in a WITH.
DRAWN_PAIR = "(SELECT pair_id FROM waiting w, matchup WHERE w.id IS NULL AND NOT w.demanded)"
LEFT_AND_RIGHT = """
    CASE WHEN low_went_left THEN {0} ELSE {1} END, CASE WHEN low_went_left THEN {1} ELSE {0} END
"""
_NEXT_AND_ISSUE = f"""
    WITH {MATCHUP}, side AS ({TAKE_SIDE_OF.format(DRAWN_PAIR)}),
    issued AS (
        INSERT INTO arena_comparison ({", ".join(DRAWN_FIELDS)})
        SELECT %(key)s, %(arena)s, %(rater)s, prompt_id, probability, low_names OR high_names,
            %(now)s, %(expires)s, {LEFT_AND_RIGHT.format("low_id", "high_id")},
            {LEFT_AND_RIGHT.format("low_response_id", "high_response_id")}
        FROM side, matchup
        RETURNING id, left_id
    )
    SELECT w.id, w.demanded, i.id, i.left_id, m.*
    FROM waiting w LEFT JOIN matchup m ON true LEFT JOIN issued i ON true
"""  # noqa: S608  (made of constants alone)
_OWN = f"own AS ({OWN}), "
_IMPARTIAL = "AND " + IMPARTIAL.format("p.low_id", "p.high_id")


def _for_stranger(text: str) -> str:
    """Shorten the statement for a rater who is in no team, and alone in the browser."""
    for name in ("%(rater)s", "%(unseen)s"):
        text = text.replace(EITHER.format(name), f"= (SELECT {name})")
    text = text.replace("count(DISTINCT c.prompt_id)", "count(*)")
    return text.replace(_OWN, "").replace(_IMPARTIAL, "")


def _short(text: str) -> str:
    """Remove indentation: psycopg keeps only texts of up to 4,096 characters parsed."""
    return " ".join(text.split()).replace("( ", "(").replace(" )", ")").replace(", ", ",")


FIND_AND_CAST = _short(_FIND_AND_CAST)
# By whether the rater is a stranger, and whether the pair is issued at once.
NEXT = {
    (stranger, issues): _short(_for_stranger(text) if stranger else text)
    for issues, text in ((False, _NEXT), (True, _NEXT_AND_ISSUE))
    for stranger in (False, True)
}


# -- Running ---------------------------------------------------------------------------------------


def one(statement: str, *values: Any, **named: Any) -> Row | None:
    """Run a statement with values in order, or with named ones; return its first row, or None."""
    with connection.cursor() as cursor:
        cursor.execute(statement, _all_stored(values, named))
        row: Row | None = cursor.fetchone()
    return row


def rows(statement: str, *values: Any, **named: Any) -> list[Row]:
    """Like `one`, but return all rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, _all_stored(values, named))
        result: list[Row] = cursor.fetchall()
    return result


def _all_stored(values: Row, named: dict[str, Any]) -> Row | list[Any] | dict[str, Any]:
    if connection.vendor == "postgresql":  # PostgreSQL stores all of them as they are
        return named or values
    if named:
        return {name: stored(value) for name, value in named.items()}
    return [stored(value) for value in values]


def single_statement() -> AbstractContextManager[object]:
    """Return a transaction for one statement, if the database needs one.

    PostgreSQL starts one itself, which saves two of three round trips. On SQLite a writer must
    begin one, because that is where it waits for its turn.
    """
    if connection.vendor == "sqlite":
        return transaction.atomic(savepoint=False)
    return nullcontext()


def count_rows_anew(*models: type[Model]) -> None:
    """Let PostgreSQL plan for tables that have just grown, before autovacuum gets to them."""
    if connection.vendor == "postgresql":
        names = ", ".join(connection.ops.quote_name(model._meta.db_table) for model in models)
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {names}")


def stored(value: Any) -> Any:
    """Return the value as this database stores it: SQLite has neither times nor UUIDs."""
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, UUID) and not connection.features.has_native_uuid_field:
        return value.hex
    return value


def moment(value: datetime | None) -> datetime | None:
    """Return a stored time with its time zone: SQLite drops UTC."""
    return value.replace(tzinfo=UTC) if value and value.tzinfo is None else value

"""The ways to quote a leaderboard, two candidates or one of them elsewhere."""

from dataclasses import dataclass

from django.urls import reverse
from django.utils.html import escape
from django.utils.translation import gettext

from arena.models import Candidate
from arena.site import absolute_url
from ranking.board_data import BoardLinks, Link
from ranking.scripted_raters import demo_notice
from ranking.votes import PEOPLE


@dataclass(frozen=True)
class ShareText:
    """A text to copy."""

    name: str
    label: str
    text: str


@dataclass(frozen=True)
class Share:
    texts: list[ShareText]
    links: list[Link]


def share_board(
    board: BoardLinks, page: str = "board", *, says: str = "", **parameters: str
) -> Share | None:
    """Link and citation, and of a leaderboard also embed, picture and a page to keep, if there is
    one; None for a private arena. `says`: the finding to quote."""
    if board.arena.is_private:
        return None
    link = absolute_url(board.address(page, **parameters))
    texts = [ShareText("link", gettext("Link"), link)]
    if board.snapshot:
        day, n_votes = board.snapshot.published_at.date(), f"{board.snapshot.n_votes:,}"
        demo = demo_notice(board.arena, board.snapshot)
        among = f" on prompts in “{board.query.category}”" if board.query.category else ""
        words = [f"{board.arena.name}:", says, f"Leaderboard of {n_votes} votes{among},"]
        words += [f"{day.isoformat()}.", str(demo or ""), link]
        citation = " ".join(word for word in words if word)
        texts.append(ShareText("citation", gettext("Citation"), citation))
    if page != "board":
        return Share(texts, [])
    embed = absolute_url(board.address("embed_board"))
    frame = (
        f'<iframe src="{escape(embed)}" title="{escape(board.arena.name)}" width="100%"'
        ' height="480" loading="lazy"></iframe>'
    )
    texts.append(ShareText("embed", gettext("Embed"), frame))
    links = [Link(gettext("Picture (PNG)"), board.address("board_picture"), chosen=False)]
    if board.query.raters == PEOPLE and not board.query.category:
        copy = reverse("api_export_leaderboard", args=[board.arena.slug])
        links.append(Link(gettext("Page to keep (HTML)"), copy, chosen=False))
    return Share(texts, links)


def share_candidate(candidate: Candidate) -> Share | None:
    """Link, badge and picture; None in a private arena."""
    if candidate.arena.is_private:
        return None

    def url(name: str) -> str:
        path = reverse(name, args=[candidate.arena.slug, candidate.pk])
        return absolute_url(path)

    link, badge = url("candidate"), url("badge")
    image = f'<img src="{badge}" alt="Ringside" height="20">'
    texts = [
        ShareText("link", gettext("Link"), link),
        ShareText("markdown", gettext("Badge (Markdown)"), f"[![Ringside]({badge})]({link})"),
        ShareText("badge", gettext("Badge (HTML)"), f'<a href="{link}">{image}</a>'),
    ]
    links = [
        Link(gettext("Badge (SVG)"), badge, chosen=False),
        Link(gettext("Picture (PNG)"), url("candidate_picture"), chosen=False),
    ]
    return Share(texts, links)

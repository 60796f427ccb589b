"""What Django checks at every start: that the rubrics can be used."""

from typing import Any

from django.core.checks import Error, register

from judges.core.rubric import RubricError, load_rubric, rubric_slugs


@register()
def check_rubrics(app_configs: Any, **kwargs: Any) -> list[Error]:
    """Report every rubric that cannot be loaded, with its reason."""
    return [Error(reason, id="judges.E001") for reason in map(_trouble, rubric_slugs()) if reason]


def _trouble(slug: str) -> str:
    try:
        load_rubric(slug)
    except RubricError as error:
        return str(error)
    return ""

"""A system check that every rubric can be loaded."""

from typing import Any

from django.core.checks import Error, register

from judges.core.rubric import RubricError, load_rubric, rubric_slugs


@register()
def check_rubrics(app_configs: Any, **kwargs: Any) -> list[Error]:
    errors = []
    for slug in rubric_slugs():
        try:
            load_rubric(slug)
        except RubricError as error:
            errors.append(Error(str(error), id="judges.E001"))
    return errors

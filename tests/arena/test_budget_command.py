"""`manage.py budget`."""

import pytest
from django.core.management import CommandError, call_command

from tests.factories import make_team

pytestmark = pytest.mark.django_db


def test_an_operator_sets_a_budget_and_the_audit_log_says_so(capsys):
    team = make_team(name="Help")
    call_command("budget", "help", "12.50")
    team.refresh_from_db()
    assert team.budget == 12_500_000_000
    assert capsys.readouterr().out == "Help may spend $12.50; $0.00 of it is spent or reserved.\n"
    entry = team.audit_entries.latest("pk")
    assert (entry.by, entry.action) == ("an administrator (command line)", "set the budget")
    assert entry.details == {"budget": "$12.50", "before": "$0.00"}


def test_without_an_amount_the_budget_is_shown_and_unchanged(capsys):
    team = make_team(name="Help")
    call_command("budget", "help")
    assert capsys.readouterr().out.startswith("Help may spend $0.00")
    assert team.audit_entries.count() == 1


@pytest.mark.parametrize("amount", ["much", "nan", "inf", "1000001", "-1"])
def test_an_invalid_amount_is_refused_with_a_reason(amount):
    team = make_team(name="Help")
    with pytest.raises(CommandError, match="amount"):
        call_command("budget", "help", "--", amount)
    team.refresh_from_db()
    assert team.budget == 0


def test_a_team_that_is_not_there_is_named():
    with pytest.raises(CommandError, match="There is no team nobody"):
        call_command("budget", "nobody", "1")

"""Where teams are."""

from django.urls import path

from arena.views.teams import invitations, members, records, teams, tokens

urlpatterns = [
    path("teams/", teams.my_teams, name="teams"),
    path("teams/new/", teams.new_team, name="new_team"),
    path("teams/<slug:slug>/", teams.team, name="team"),
    path("teams/<slug:slug>/rename/", teams.rename_team, name="rename_team"),
    path("teams/<slug:slug>/members/", members.team_members, name="team_members"),
    path("teams/<slug:slug>/members/<int:pk>/role/", members.change_role, name="change_role"),
    path("teams/<slug:slug>/members/<int:pk>/remove/", members.remove, name="remove_member"),
    path("teams/<slug:slug>/leave/", members.leave, name="leave_team"),
    path(
        "teams/<slug:slug>/invitations/<int:pk>/revoke/", members.revoke, name="revoke_invitation"
    ),
    path("teams/<slug:slug>/tokens/", tokens.team_tokens, name="team_tokens"),
    path("teams/<slug:slug>/tokens/<int:pk>/revoke/", tokens.revoke, name="revoke_token"),
    path("teams/<slug:slug>/audit/", records.team_audit, name="team_audit"),
    path("teams/<slug:slug>/notices/", records.team_notices, name="team_notices"),
    path("invitations/", invitations.open_invitation, name="open_invitation"),
    path("invitations/<str:secret>/", invitations.follow_link, name="invitation"),
]

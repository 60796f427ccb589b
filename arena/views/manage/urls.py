"""Where teams set up an arena."""

from django.urls import path

from arena.views.manage import arenas, candidates, prompts, uploads

DESK = "a/<slug:slug>/manage"
CANDIDATE = f"{DESK}/candidates/<int:pk>"

urlpatterns = [
    path("teams/<slug:slug>/arenas/new/", arenas.new_arena, name="new_arena"),
    path(f"{DESK}/", arenas.manage_arena, name="manage_arena"),
    path(f"{DESK}/settings/", arenas.arena_settings, name="arena_settings"),
    path(f"{DESK}/prompts/", prompts.manage_prompts, name="manage_prompts"),
    path(f"{DESK}/prompts/add/", prompts.add_prompts, name="add_prompts"),
    path(f"{DESK}/prompts/<int:pk>/", prompts.edit_prompt, name="edit_prompt"),
    path(f"{DESK}/prompts/<int:pk>/retire/", prompts.retire_prompt, name="retire_prompt"),
    path(f"{DESK}/candidates/", candidates.manage_candidates, name="manage_candidates"),
    path(f"{DESK}/candidates/new/", candidates.new_candidate, name="new_candidate"),
    path(f"{CANDIDATE}/", candidates.manage_candidate, name="manage_candidate"),
    path(f"{CANDIDATE}/edit/", candidates.edit_candidate, name="edit_candidate"),
    path(f"{CANDIDATE}/retire/", candidates.retire_candidate, name="retire_candidate"),
    path(f"{CANDIDATE}/upload/", uploads.upload_answers, name="upload_answers"),
]

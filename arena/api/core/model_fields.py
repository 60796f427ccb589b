"""Serializers whose fields are those of a model, with its names, types and limits."""

from typing import Any

from django.db import models
from rest_framework import serializers

from arena.api.core.serializers import PatchSerializer, Text


class ModelShown(serializers.ModelSerializer[Any]):
    """A row in an answer. The labels of its fields are words on pages, and none of a program's."""

    def build_standard_field(self, field_name: str, model_field: Any) -> tuple[Any, dict[str, Any]]:
        field_class, options = super().build_standard_field(field_name, model_field)
        options.pop("label", None)
        return field_class, options


class ModelGiven(serializers.ModelSerializer[Any]):
    """A row in a body: `extra_kwargs` says where it asks for less or more than the model.

    Services check and word what a field may contain, and the model's help texts are for forms.
    """

    serializer_field_mapping = serializers.ModelSerializer.serializer_field_mapping | {
        models.TextField: Text
    }

    def build_standard_field(self, field_name: str, model_field: Any) -> tuple[Any, dict[str, Any]]:
        field_class, options = super().build_standard_field(field_name, model_field)
        for name in ("label", "help_text", "validators", "style"):
            options.pop(name, None)
        return field_class, options


class ModelChanges(PatchSerializer, ModelGiven):
    """A body with changes to a row."""


def hidden(*names: str) -> dict[str, dict[str, Any]]:
    """Return the `extra_kwargs` of fields that are null for readers who may not see them."""
    always = {"required": True, "allow_null": True, "max_length": None, "help_text": None}
    return dict.fromkeys(names, always)

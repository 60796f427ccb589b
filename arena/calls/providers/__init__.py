"""Clients of model servers, one file each; copy one to add another. No Django in here."""

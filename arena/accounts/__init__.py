"""What accounts do in their own way: forms, limits, who may sign up, signing in elsewhere.

The pages themselves are in `arena.views.accounts`; how a password is checked and a link is signed
is django-allauth's.
"""

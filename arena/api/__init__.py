"""The REST API under /api/v1/: what all of it stands on, and the endpoints of this floor.

`arena.api.core` is for the API of every floor. An endpoint on it is written so:

    from arena.api.core.views import ArenaEndpoint, ListEndpoint
    from arena.api.core.schema import operation

    class Boards(ArenaEndpoint, ListEndpoint):
        tag = "Boards"                            # the chapter of the docs it belongs to
        abilities = {"POST": TeamPermission.JUDGE}  # of unsafe methods; GET needs READ

        @operation("list_boards", "List the boards of an arena",
                   answer=BoardShown(many=True), shown={...})
        def get(self, request, slug):
            return self.page(self.arena.boards.all(), BoardShown)

and put into a urls module with a name that begins with `api_`, included in `arena/urls.py` before
`arena.api.urls`, whose last route answers for every path that is not there.

- Who asks is `self.actor` (`arena.actors.Actor`): the bearer of a token, the person signed in, or
  nobody. A token without the scope in `abilities` is refused with 403, nobody who wants to write
  with 401, before the method runs. Reading is open to nobody unless `is_open = False`: a method
  that shows more than the public may see calls `self.require(ability, team)`, which raises 401 or
  403.
- `self.arena` (of an ArenaEndpoint) is the arena in the path, as far as the actor may know of it: a
  private one is missing to strangers, by the same query and with the same body. Start every other
  query from it, or from `self.arenas()`.
- A body is read by `self.validated(SomeGiven)`; `SomeGiven` is a `StrictSerializer`, which refuses
  members that it does not know, made of `Text` where spaces matter. What the parser lets through is
  JSON that both databases can keep. `body_limit = requests.BULK_BODY` takes 32 MB instead of 1 MB.
- Writes go through services. A `ServiceError` becomes 422 with its message and a pointer to its
  field, a `VoteError` 409; for the rest there are `core.errors.Conflict`,
  `Unprocessable`, `TooLarge` and `BadParameter`. Every other exception is a 500 that tells nothing.
- Every POST takes an Idempotency-Key without doing anything for it: with a key the method runs in
  one transaction with the key and its answer, so it must leave slow work to tasks, on commit.
- `self.page(rows, Serializer)` pages by id (`newest_first = True`: from the newest), after the
  filters of `filterset_class` (django-filter; `queryset = Model.objects.none()` beside it). Any
  other parameter is refused, but those that `asked_by` names.
- Every 200 of a GET gets an ETag over its bytes and 304. `check_match(request, data)` makes a PATCH
  obey If-Match, inside the transaction that changes the row (`has_match = True` documents it).
- Requests are counted per scope, and per token, person or address: a write for each. What is
  served from a stored page and seen by everybody may say `is_throttled = False`.
- `operation` gives each method an operation id (verb_noun), a summary and examples.
"""

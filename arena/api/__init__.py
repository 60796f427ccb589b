"""The REST API under /api/v1/: its core, and the endpoints of this app.

An endpoint of any app is written like this:

    from arena.api.core.schema import operation
    from arena.api.core.views import ArenaEndpoint, ListEndpoint

    class Boards(ArenaEndpoint, ListEndpoint):
        tag = "Boards"                              # the section of the documentation
        permissions = {"POST": TeamPermission.JUDGE}  # for unsafe methods; GET needs READ

        @operation("list_boards", "List the boards of an arena",
                   answer=BoardShown(many=True), shown={...})
        def get(self, request, slug):
            return self.page(self.arena.boards.all(), BoardShown)

Its route has a name that begins with `api_` and stands in the `urls.py` of its app. The last route
of `arena/urls.py` answers 404 for every other path.

- `self.actor` is the sender of the request: a token, a signed-in person, or nobody. Before the
  method runs, a token without the scope in `permissions` gets 403, and an anonymous write gets 401.
  Anybody can read unless `is_open = False`. A method that shows more than the public may see calls
  `self.require(permission, team)`, which raises 401 or 403.
- `self.arena` (of an ArenaEndpoint) is the arena in the path. To outsiders a private arena looks
  like a missing one, with the same query and the same body. Start every other query from
  `self.arena` or from `self.arenas()`.
- `self.validated(SomeGiven)` reads the body. `SomeGiven` is a StrictSerializer, which refuses
  unknown members; use `Text` where spaces matter. `body_limit = BULK_BODY` accepts 32 MB instead
  of 1 MB.
- Writes go through services. A ServiceError becomes 422 with its message and a pointer to its
  field, a VoteError becomes 409; `core.errors` has the others. Any other exception is a 500 without
  details.
- Every POST accepts an Idempotency-Key. The method then runs in one transaction with the key and
  its stored answer, so slow work belongs in tasks, on commit.
- `self.page(rows, Serializer)` paginates by id (`newest_first = True` reverses it), after the
  filters of `filterset_class` (django-filter; with `queryset = Model.objects.none()`). Unknown
  parameters are refused.
- Every 200 of a GET has an ETag. `check_match(request, data)`, called in the transaction that
  changes the row, makes a PATCH obey If-Match; `has_match = True` documents it.
- Requests are counted per scope, and per token, person or address. Stored public pages may set
  `is_throttled = False`.
- `operation` gives each method an operation id (verb_noun), a summary and examples.
"""

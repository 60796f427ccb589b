"""The public pages of ranking. The same for everybody: none is rendered with the request."""

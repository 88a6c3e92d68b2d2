"""Sites of programs, the places that launch a dispatch, and the source operations of each.

The modules have no side effects. The scripts, whose names begin with `_`, run as processes of their own."""

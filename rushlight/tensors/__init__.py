"""The tensor front end. `namespace.TABLE` is what `rushlight` re-exports; see README.md."""

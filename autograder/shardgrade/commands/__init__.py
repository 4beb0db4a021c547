"""The subcommands of `shardgrade`, one module each."""

"""The command line `gc25d`: thin, everything it does is also there in the Dagster UI."""

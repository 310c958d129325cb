"""The command line: one file a command. Nothing here imports torch before a command runs."""


def main() -> None:
    """The entry point of the `regard` program.

    Raises:
        SystemExit: 130, the program was stopped by the user.
    """
    try:
        from regard.cli.app import run

        run()
    except KeyboardInterrupt:  # before a command, which has its own words for it, has begun
        raise SystemExit(130) from None

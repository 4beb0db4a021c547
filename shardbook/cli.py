"""The `shardbook` command: a thin shell over `shardbook.commands`, one module a subcommand."""

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from shardbook import __version__
from shardbook.errors import InputError

#: subcommand → the one-line help shown before its module is imported
COMMANDS: Final = {
    "ledger": "What each rank stores: bytes by category, recipe, stage and world size.",
    "collective": "Rounds, bytes and time of a collective.",
    "train": "Train a small network on simulated devices and log every byte.",
    "fsdp": "The timeline of FSDP units on two streams.",
    "pipeline": "A pipeline schedule: actions, makespan, bubble, live micro-batches.",
    "offload": "Where states may lie, and how much bandwidth hides them.",
    "plan": "Which layout for this model on this cluster, and why not the others.",
    "cost": "Time, energy and money of a training; rent or own.",
    "lab": "List, start, check and pack the graded labs.",
}


class LazyGroup(click.Group):
    """Imports a subcommand's module, ``package.NAME``, only when it is called.

    ``lazy`` maps each subcommand to its one-line help; a module defines ``command``.
    """

    def __init__(self, *args: Any, package: str, lazy: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self.package = package
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order given."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a subcommand, or None for an unknown name."""
        if cmd_name not in self.lazy:
            return None
        module = importlib.import_module(f"{self.package}.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lazy.items()))


def _refuse_repeated(
    command: click.Command, args: list[str], parent: click.Context | None = None
) -> None:
    # click takes the last one and says nothing.
    own = click.Context(command, parent=parent)
    _, left, given = command.make_parser(own).parse_args(list(args))
    options = [one for one in given if isinstance(one, click.Option)]
    for option in options:
        if options.count(option) > 1 and not (option.multiple or option.count):
            raise click.UsageError(f"{option.opts[-1]} is given {options.count(option)} times")
    inner = command.get_command(own, left[0]) if isinstance(command, click.Group) and left else None
    if inner is not None:
        _refuse_repeated(inner, left[1:], own)


@click.group(cls=LazyGroup, package="shardbook.commands", lazy=COMMANDS)
@click.version_option(__version__)
def cli() -> None:
    """The training ledger over many devices."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input is one line on stderr and exit code 2."""
    run(cli, "shardbook", arguments)


def run(command: click.Command, name: str, arguments: list[str] | None = None) -> None:
    """Run a click command; bad input is one line on stderr and exit code 2."""
    try:
        _refuse_repeated(command, sys.argv[1:] if arguments is None else arguments)
        code = command.main(arguments, prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError:
        _refuse(f"{name}: give a command; --help lists them")
    except click.UsageError as error:
        _refuse(f"{name}: {error.format_message()}")
    except click.ClickException as error:
        print(f"{name}: {error.format_message()}", file=sys.stderr)
        sys.exit(error.exit_code)
    except InputError as error:
        _refuse(f"{name}: {error}")
    except click.Abort:
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe closed it, as `head` does
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:  # such as a full disk behind the output
        print(f"{name}: {error.strerror or error}", file=sys.stderr)
        os._exit(1)  # the interpreter would fail once more at flushing what can't be written
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(line: str) -> None:
    print(" ".join(line.split()), file=sys.stderr)
    sys.exit(2)

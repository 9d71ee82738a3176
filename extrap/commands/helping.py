"""Commands whose help lists options and subcommands under headings."""

from __future__ import annotations

from typing import Any

import click

from extrap.commands.outputs import refuse_overwriting
from extrap.commands.printing import say
from extrap.errors import know_options

HEADINGS = {
    "Columns": "size tune loss losses seed where rename condition params tokens compute by step",
    "Laws and intervals": "level band fix path",
    "Output": "json summary markdown quiet",
    "Advanced": "let final maximise study curves big_curves storage interval aim among no_larger "
    "most_seeds",
}
"""Heading → names of the options below it; every other option is in front, under Options."""
FEW = 10
"""So many options are one list."""


class Command(click.Command):
    """A command with its options under headings; its errors name options, not arguments."""

    def headed_options(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Heading → the options below it, in the order of the help."""
        options = [
            each
            for each in self.get_params(ctx)
            if isinstance(each, click.Option) and not each.hidden
        ]
        if len(options) <= FEW:
            return {"Options": options}
        of_name = {name: head for head, names in HEADINGS.items() for name in names.split()}
        found: dict[str, list[click.Option]] = {head: [] for head in ("Options", *HEADINGS)}
        for option in options:
            name = (option.name or "").removeprefix("as_")
            found["Options" if option.required else of_name.get(name, "Options")].append(option)
        return {head: below for head, below in found.items() if below}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        for heading, options in self.headed_options(ctx).items():
            with formatter.section(heading):
                records = [option.get_help_record(ctx) for option in options]
                formatter.write_dl([record for record in records if record is not None])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; messages name its options, and no file of the user is replaced."""
        options: dict[str, str] = {}
        for param in self.params:
            if isinstance(param, click.Option) and param.name:
                option = max([*param.opts, *param.secondary_opts], key=len)
                name = option.removeprefix("--").replace("-", "_")
                options |= dict.fromkeys((param.name, name), option)
                if param.multiple:  # its argument takes several
                    options.setdefault(f"{name}s", option)
        know_options(options)
        refuse_overwriting(ctx)
        return super().invoke(ctx)


class Group(click.Group):
    """A group whose help lists the commands under headings, and is printed if none is named."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._sections: dict[str, list[click.Command]] = {}

    def add_section(self, heading: str, *commands: click.Command) -> None:
        """Add commands, which the help lists under a heading."""
        self._sections[heading] = [*commands]
        for command in commands:
            self.add_command(command)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; without any, print the help."""
        if not args and not ctx.resilient_parsing:
            say(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings, each with its whole first sentence."""
        width = max(map(len, self.commands), default=0)
        for heading, commands in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (f"{each.name:<{width}}", each.get_short_help_str(1_000).rstrip("."))
                        for each in commands
                    ]
                )

/** Completion in shells: each script calls the command, which knows its commands and options. */
import { type Command, CommandLineError, commandIn, EXIT, globalOptions } from "./command.ts";
import { print } from "./output.ts";
import { readProfiles } from "./profiles.ts";

const scripts: Readonly<Record<string, string>> = {
  bash: `_breakwater() {
  local IFS=$'\\n'
  COMPREPLY=($(breakwater completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _breakwater breakwater`,
  zsh: `#compdef breakwater
_breakwater() {
  local -a found
  found=(\${(f)"$(breakwater completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( \${#found} )); then compadd -a found; else _files; fi
}
compdef _breakwater breakwater`,
  fish: `function __breakwater_words
  set -l found (breakwater completion words -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
  if set -q found[1]
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c breakwater -f -a '(__breakwater_words)'`,
};

/** @param commands all commands, this one included */
export function completionCommand(commands: () => readonly Command[]): Command {
  return {
    name: "completion",
    args: "<shell> [word]...",
    summary: "Print the completion script of bash, zsh or fish",
    details: 'bash, zsh: eval "$(breakwater completion bash)". fish: breakwater completion fish | source',
    async run({ arg, args }) {
      if (arg === "words") {
        for (const word of wordsAfter(commands(), args.slice(1))) print(word);
        return EXIT.ok;
      }
      const script = scripts[arg];
      if (script === undefined)
        throw new CommandLineError(`The shell is ${arg}; expected one of ${Object.keys(scripts).join(", ")}`);
      print(script);
      return EXIT.ok;
    },
  };
}

/** The completions of the last word. */
function wordsAfter(commands: readonly Command[], words: readonly string[]): string[] {
  const current = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const found = commandIn(commands, before);
  return (
    found ? argumentsOf(found.command, before.at(-1) ?? "", current) : namesAfter(commands, before)
  ).filter((word) => word.startsWith(current));
}

function namesAfter(commands: readonly Command[], before: readonly string[]): string[] {
  const names = commands.map(({ name }) => name.split(" "));
  const next = names
    .filter((name) => before.every((word, at) => name[at] === word))
    .map((name) => name[before.length]);
  return [...new Set(next.flatMap((word) => word ?? []))];
}

function argumentsOf({ name, options = {} }: Command, previous: string, current: string): readonly string[] {
  const all = { ...options, ...globalOptions };
  const { value, choices = [] } = all[previous.replace(/^--/, "")] ?? {};
  if (previous === "--profile") return Object.keys(readProfiles());
  if (previous.startsWith("--") && value !== undefined) return choices;
  if (name === "completion") return Object.keys(scripts);
  return current.startsWith("-") ? Object.keys(all).map((name) => `--${name}`) : [];
}

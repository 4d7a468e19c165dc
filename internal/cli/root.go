package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolroom/toolroom/internal/nearest"
)

// Groups of commands in the help.
const (
	groupUse    = "use"
	groupSetUp  = "setup"
	groupGovern = "govern"
	groupAbout  = "about"
)

// root builds the command tree.
func (a *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "toolroom",
		Short: "A gateway and runtime for agent tools",
		Long: `Toolroom is a gateway and runtime for agent tools: connect MCP servers, APIs,
command-line programs and functions; control and record every call.`,
		Example: `  toolroom sources add filesystem -- mcp-server-filesystem .
  toolroom search "read a file"
  toolroom call filesystem:read_text_file path=README.md
  toolroom serve`,
		Version:           a.Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return a.applyGlobalFlags(c) },
	}
	requireSubcommand(root)
	root.SetVersionTemplate(a.versionLine())
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.screen)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		hint := c.CommandPath() + " --help"
		if name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
			if near, ok := nearest.Of(name, flagNames(c)); ok {
				hint = c.CommandPath() + " --" + near + "\n" + hint
			}
			if !c.HasParent() {
				hint = "write a flag of a command after the command: toolroom COMMAND --" + name + "\n" + hint
			}
			if strings.Contains(c.Use, "KEY=VALUE") {
				hint = "an argument of the tool is written without dashes: " + name + "=VALUE\n" + hint
			}
		}
		return usage(hint, "%s", strconvMessage.ReplaceAllStringFunc(err.Error(), explainStrconv))
	})
	flags := root.PersistentFlags()
	a.top = root
	flags.StringVar(&a.home, "home", a.Home, "state folder (TOOLROOM_HOME)")
	flags.StringVar(&a.configFile, "config", a.Config, "config file (TOOLROOM_CONFIG); default: ./toolroom.yaml, then the user's")
	flags.BoolVar(&a.trustConfig, "trust-config", a.TrustConfig, "trust ./toolroom.yaml in this command (TOOLROOM_TRUST_CONFIG=1)")
	flags.BoolVar(&a.standalone, "standalone", false, "do not use the running server of this home")
	flags.StringVar(&a.logLevel, "log-level", "", "log to stderr: debug, info, warn or error")
	flags.BoolVar(&a.noColor, "no-color", a.NoColor, "disable colours (NO_COLOR)")
	completeValues(root, "log-level", logLevels()...)

	root.AddGroup(
		&cobra.Group{ID: groupUse, Title: "Use tools:"},
		&cobra.Group{ID: groupSetUp, Title: "Set up:"},
		&cobra.Group{ID: groupGovern, Title: "Govern:"},
		&cobra.Group{ID: groupAbout, Title: "About this Toolroom:"},
	)
	add := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	add(groupUse, a.callCommand(), a.execCommand(), a.runsCommand(), a.chainCommand(), a.searchCommand(), a.describeCommand(), a.toolsCommand(), a.toolCommand(), a.stubsCommand(), a.artifactCommand(), a.sessionCommand())
	add(groupSetUp, a.initCommand(), a.setupCommand(), a.serveCommand(), a.reloadCommand(), a.serviceCommand(), a.runnerCommand(), a.temporalCommand(), a.sourcesCommand(), a.importCommand(), a.connectCommand(), a.configCommand(), a.trustCommand(), a.imageCommand(), a.backupCommand(), a.restoreCommand())
	add(groupGovern, a.callsCommand(), a.auditCommand(), a.approveCommand(), a.policyCommand(), a.tokenCommand(), a.secretCommand())
	add(groupAbout, a.statusCommand(), a.doctorCommand(), a.explainCommand(), a.gcCommand(), a.benchCommand(), a.versionCommand(), a.updateCommand(), a.completionCommand())
	root.SetHelpCommandGroupID(groupAbout)
	a.addOutputFlag(root)
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	a.commandPattern = regexp.MustCompile(`(^|[\s(:"'])toolroom (` + strings.Join(names, "|") + `)\b`)
	rejectUnknownHelpTopics(root)
	return root
}

// rejectUnknownHelpTopics makes toolroom help return an error for a word that is not a command.
// Commands with sub-commands accept any words, so cobra would show the help of the last command
// that it knows.
func rejectUnknownHelpTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		return
	}
	show := help.Run
	help.Run = nil
	help.RunE = func(c *cobra.Command, args []string) error {
		of, rest, err := root.Find(args)
		if err == nil && len(rest) > 0 && of.HasSubCommands() {
			return unknownCommand(of, rest[0])
		}
		show(c, args)
		return nil
	}
}

// addGlobalFlags adds --home and --config to the commands in a text if the user typed them.
// Without them the suggested commands would use another home or config.
func (a *cli) addGlobalFlags(text string) string {
	typed := ""
	for _, name := range []string{"home", "config"} {
		if f := a.top.PersistentFlags().Lookup(name); f != nil && f.Changed && !strings.Contains(text, " --"+name+" ") {
			typed += " --" + name + " " + shellWord(f.Value.String())
		}
	}
	if typed == "" {
		return text
	}
	return a.commandPattern.ReplaceAllString(text, "${1}toolroom"+strings.ReplaceAll(typed, "$", "$$")+" ${2}")
}

// shellWord quotes a word for a shell if that is needed.
func shellWord(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("-_./:=@%+,~", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// applyGlobalFlags checks the global flags after parsing, and applies them.
func (a *cli) applyGlobalFlags(c *cobra.Command) error {
	if err := a.chooseOutput(c); err != nil {
		return err
	}
	if err := rejectEmptyFlags(c); err != nil {
		return err
	}
	a.screen.color = !a.noColor && a.screen.outTerminal
	a.stopActivity = a.showSilentActivity(c)
	// Child processes such as pip get paths below it, and run in other folders.
	if a.home != "" && !filepath.IsAbs(a.home) {
		a.relativeHome = a.home == a.Home // else --home was typed
		a.home = filepath.Join(a.Dir, a.home)
	}
	if a.logLevel == "" {
		return nil
	}
	if err := oneOf("--log-level", a.logLevel, logLevels()...); err != nil {
		return err
	}
	return a.level.UnmarshalText([]byte(a.logLevel))
}

// requireSubcommand makes c show its help, or an error for a word that is not a sub-command.
func requireSubcommand(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownCommand(c, args[0])
	}
}

// removalWords are the words that people try for a command that removes something.
var removalWords = []string{"delete", "remove", "rm"}

// unknownCommand returns the error for a word that is not a sub-command of c.
func unknownCommand(c *cobra.Command, word string) error {
	hint := c.CommandPath() + " --help"
	var names []string
	for _, sub := range c.Commands() {
		if slices.Contains(sub.SuggestFor, word) {
			return usage(c.CommandPath()+" "+sub.Name(), "unknown command %q for %s", word, c.CommandPath())
		}
		names = append(names, sub.Name())
	}
	if near, ok := nearest.Of(word, names); ok {
		hint = c.CommandPath() + " " + near
	} else if slices.Contains(names, "show") { // the word may be the id of what show shows
		hint = c.CommandPath() + " show " + word
	}
	return usage(hint, "unknown command %q for %s", word, c.CommandPath())
}

// flagNames returns the names of the flags that the help of c shows.
func flagNames(c *cobra.Command) []string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// arguments requires from least to most arguments; most < 0 means any number.
func arguments(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage(c.UseLine(), "%s needs %s", c.CommandPath(), count(least, "argument"))
		case most >= 0 && len(args) > most && c.HasSubCommands():
			return unknownCommand(c, args[most])
		case most >= 0 && len(args) > most:
			return usage(c.UseLine(), "%s does not take %q", c.CommandPath(), args[most])
		}
		return nil
	}
}

// strconvMessage matches the error of package strconv or time for the value of a flag.
var strconvMessage = regexp.MustCompile(`strconv\.Parse(?:Int|Uint|Float|Bool): parsing ".*": (?:invalid syntax|value out of range)|time: .* duration ".*"`)

// explainStrconv rewrites an error that strconvMessage matches for people.
func explainStrconv(text string) string {
	switch {
	case strings.HasPrefix(text, "time:"):
		return "write it in h, m and s, such as 720h or 1h30m"
	case strings.HasSuffix(text, "out of range"):
		return "the number is too large"
	case strings.Contains(text, "ParseBool"):
		return "write true or false"
	case strings.Contains(text, "ParseFloat"):
		return "it is not a number"
	}
	return "it is not a whole number"
}

var (
	// mayBeEmpty are the flags whose text may be empty.
	mayBeEmpty = []string{"arg", "comment", "description", "error", "expect", "input", "message", "stdin"}
	// mayBeZero are the flags whose zero is a number, not the default.
	mayBeZero = []string{"context", "cursor", "max-per-secret", "offset", "port", "sample", "uses"}
)

// rejectEmptyFlags returns an error if a flag was given an empty text, most often from an unset
// variable of a shell, or a zero that stands for the default. An empty restriction would
// restrict nothing.
func rejectEmptyFlags(c *cobra.Command) error {
	var wrong []error
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case isTextFlag(f) && isEmptyFlag(f) && !slices.Contains(mayBeEmpty, f.Name):
			wrong = append(wrong, usage("leave --"+f.Name+" out, or give it a value", "--%s is empty", f.Name))
		case slices.Contains([]string{"0", "0s"}, f.DefValue) && f.Value.String() == f.DefValue && !slices.Contains(mayBeZero, f.Name):
			wrong = append(wrong, usage("leave --"+f.Name+" out for the default", "--%s must be more than 0", f.Name))
		}
	})
	if len(wrong) == 0 {
		return nil
	}
	return wrong[0]
}

func isTextFlag(f *pflag.Flag) bool {
	return slices.Contains([]string{"string", "stringSlice", "stringArray"}, f.Value.Type())
}

// isEmptyFlag reports whether a flag's text, or one in its list of texts, is empty.
func isEmptyFlag(f *pflag.Flag) bool {
	texts := []string{f.Value.String()}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		texts = list.GetSlice()
	}
	return len(texts) == 0 || slices.ContainsFunc(texts, func(text string) bool { return strings.TrimSpace(text) == "" })
}

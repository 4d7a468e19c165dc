package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/clients"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/token"
)

// connectRun is one run of toolroom connect, with its flags.
type connectRun struct {
	*cli
	client                            clients.Client
	file, url, set                    string
	http, takeOver, undo, dryRun, yes bool
}

func (a *cli) connectCommand() *cobra.Command {
	o := &connectRun{cli: a}
	c := &cobra.Command{
		Use:   "connect [CLIENT]",
		Short: "Connect an MCP client to this Toolroom",
		Long: `Add Toolroom to the config of an MCP client: show the change, ask, and write it with a
backup in the home. --undo reverts it. Without a client, list those on this
machine.

The client starts Toolroom itself (serve --stdio), with this home and config. With
--http it uses the running server instead, with a token for this client.

With --set, the client sees one tool set of the config (sets), and its token is bound
to it.

With --take-over, the client's other servers become sources of this Toolroom, and
leave the client's config. Their secrets go to the secret store. Servers that would
not work unchanged stay where they are.

Clients: ` + strings.Join(clients.Names(), ", "),
		Example: `  toolroom connect
  toolroom connect claude-code
  toolroom connect cursor --take-over --dry-run
  toolroom connect codex --http --yes
  toolroom connect codex --http --set review
  toolroom connect claude-code --undo`,
		Args:      arguments(0, 1),
		ValidArgs: clients.Names(),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				if c.Flags().Changed("undo") || c.Flags().Changed("take-over") {
					return usage("toolroom connect CLIENT", "name a client: %s", strings.Join(clients.Names(), ", "))
				}
				return a.listClients()
			}
			found, ok := clients.Find(args[0])
			if !ok {
				return usage("one of "+strings.Join(clients.Names(), ", "), "unknown client %q", args[0])
			}
			o.client, o.http = found, o.http || o.url != ""
			if o.home == "" {
				return usage("toolroom connect "+found.Name+" --home FOLDER", "there is no home to keep the backup in")
			}
			if o.undo {
				return o.runUndo(c.Context())
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.BoolVar(&o.http, "http", false, "use the running server, with a token for this client")
	f.StringVar(&o.url, "url", "", "with --http: address of /mcp (default: that of the config)")
	f.StringVar(&o.set, "set", "", "show the client only this tool set")
	f.BoolVar(&o.takeOver, "take-over", false, "make the client's other servers sources of this Toolroom")
	f.BoolVar(&o.undo, "undo", false, "revert the change")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the change, without writing it")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.StringVar(&o.file, "file", "", "the client's config file (default: the usual one)")
	a.jsonFlag(c, "print JSON")
	return c
}

// listClients lists the clients on this machine, and whether they are connected.
func (a *cli) listClients() error {
	type entry struct {
		Client  string   `json:"client"`
		State   string   `json:"state"`
		File    string   `json:"file"`
		Servers []string `json:"servers"`
		Problem string   `json:"problem,omitempty"`
	}
	var entries []entry
	var rows [][]string
	for _, c := range clients.Clients() {
		s := clients.ReadState(c, a.UserHome, "")
		e := entry{Client: c.Name, State: "not found", File: s.File, Servers: orEmpty(s.Servers)}
		switch {
		case s.Problem != nil:
			e.State, e.Problem = "unreadable", s.Problem.Error()
		case s.Connected:
			e.State = "connected"
		case s.Installed:
			e.State = "not connected"
		}
		entries = append(entries, e)
		if e.State != "not found" {
			file := e.File
			if e.Problem != "" {
				file += ": " + e.Problem
			}
			rows = append(rows, []string{e.Client, e.State, count(len(e.Servers), "other server"), file})
		}
	}
	if a.asJSON {
		return a.screen.json(entries)
	}
	if len(rows) == 0 {
		a.screen.say("No MCP client was found. toolroom connect CLIENT writes the config of one all the same: %s", strings.Join(clients.Names(), ", "))
		return nil
	}
	return a.screen.table([]string{"CLIENT", "STATE", "SERVERS", "FILE"}, rows)
}

// tokenPlaceholder stands for a token that does not exist yet.
const tokenPlaceholder = "tr_made-when-you-agree"

func (o *connectRun) run(ctx context.Context) error {
	state := clients.ReadState(o.client, o.UserHome, o.typedPath(o.file))
	if state.Problem != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: %w", state.File, state.Problem).WithHint("correct the file, or name another one with --file")
	}
	configFile, err := o.editable()
	if err != nil {
		return err
	}
	take, stay, err := o.importable(ctx, configFile, state)
	if err != nil {
		return err
	}
	if !o.takeOver {
		take = nil
	}
	server, err := o.selfEntry(configFile, len(take) > 0)
	if err != nil {
		return err
	}
	change, err := clients.Prepare(o.client, state.File, server, entryNames(take))
	if err != nil {
		return err
	}
	if state.Connected && !o.http && change.Same() && o.asJSON {
		return o.show(change, take, stay, state)
	}
	if state.Connected && !o.http && change.Same() {
		return o.screen.printf("%s is connected already, in %s\n", o.client.Title, state.File)
	}
	if err := o.show(change, take, stay, state); err != nil || o.dryRun {
		return err
	}
	if err := o.confirmChange(ctx); err != nil {
		return err
	}
	earlier, err := clients.Recorded(o.home, o.client, state.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	record := clients.Record{Config: configFile}
	if err := o.write(ctx, &record, change, server, take); err != nil {
		o.removeSources(ctx, record)
		return errors.Join(err, o.removeSecrets(ctx, record), o.revoke(ctx, record.Token))
	}
	if err := o.revoke(ctx, earlier.Token); err != nil { // the client has the new one
		return err
	}
	return o.report(record)
}

// write adds the sources and the token that the client needs, notes them in record, and writes
// the change to the client's config.
func (o *connectRun) write(ctx context.Context, record *clients.Record, change *clients.Change, server clients.Self, take []clients.Found) error {
	done, err := o.cli.importServers(ctx, record.Config, take, false, false)
	for _, one := range done {
		if one.State == "added" {
			record.Sources = append(record.Sources, one.Name)
		}
		record.Secrets = append(record.Secrets, one.Secrets...)
	}
	if err != nil {
		return err
	}
	if o.http {
		if server.Token, record.Token, err = o.newToken(ctx); err != nil {
			return err
		}
		before := change.Before
		if change, err = clients.Prepare(o.client, change.File, server, entryNames(take)); err != nil {
			return err
		}
		if !bytes.Equal(before, change.Before) {
			return toolroom.Errorf(toolroom.CodeConflict, "%s has changed meanwhile", change.File).WithCLIHint("try again; close %s first", o.client.Title)
		}
	}
	return change.Write(o.home, record)
}

// removeSources removes the sources that this run has added to the config.
func (o *connectRun) removeSources(ctx context.Context, record clients.Record) {
	for _, name := range record.Sources {
		err := config.RemoveSource(record.Config, name, o.keepTrust(record.Config))
		if err := o.record(ctx, "sources.remove", changeArguments{Name: name}, err); err != nil {
			o.screen.say("%s: %s", record.Config, err)
		} else {
			o.screen.say("removed source %q from %s", name, record.Config)
		}
	}
}

// removeSecrets removes the secrets that this run has stored, except those that the config still
// names.
func (o *connectRun) removeSecrets(ctx context.Context, record clients.Record) error {
	text, err := os.ReadFile(record.Config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unused := slices.DeleteFunc(slices.Clone(record.Secrets), func(ref string) bool { return bytes.Contains(text, []byte(ref)) })
	if len(unused) == 0 {
		return nil
	}
	return o.inState(ctx, func(r *app.App) error {
		for _, text := range unused {
			ref, err := secret.ParseRef(text)
			if err != nil {
				return err
			}
			if err = r.Parts().Secrets.Remove(ctx, ref); toolroom.CodeOf(err) == toolroom.CodeNotFound {
				continue // somebody has removed it
			}
			if err := o.recordIn(ctx, r, "secrets.remove", changeArguments{Name: ref.Scope + "/" + ref.Name}, err); err != nil {
				return err
			}
			o.screen.say("removed the secret %s", ref)
		}
		return nil
	})
}

// selfEntry returns the entry of the client's config that starts or reaches this Toolroom.
func (o *connectRun) selfEntry(configFile string, made bool) (clients.Self, error) {
	c := config.Default()
	var args []string
	if _, err := os.Stat(configFile); err == nil {
		// A client that names the config needs no trust, so the user must have agreed.
		if c, err = config.LoadVerified(configFile, o.verifier(configFile)); err != nil {
			return clients.Self{}, err
		}
		args = []string{"--config", o.typedPath(configFile)}
	} else if made {
		args = []string{"--config", o.typedPath(configFile)}
	}
	if _, ok := c.Sets[o.set]; !ok && o.set != "" {
		return clients.Self{}, toolroom.Errorf(toolroom.CodeNotFound, "there is no tool set %q", o.set).WithHint("write it in the section sets of the config")
	}
	if o.set != "" {
		args = append(args, "--set", o.set)
	}
	if !o.http {
		return clients.Self{Command: stablePath(o.Self), Args: append(append([]string{"serve", "--stdio"}, args...), "--home", o.home)}, nil
	}
	if !o.client.HTTP {
		return clients.Self{}, usage("toolroom connect "+o.client.Name, "the config of %s cannot name a server by its URL", o.client.Title)
	}
	url := o.url
	if url == "" {
		url = cmp.Or(c.Server.URL, addressOf(c.Server)) + "/mcp"
		if o.set != "" {
			url += "/p/" + o.set
		}
	}
	return clients.Self{URL: url, Token: tokenPlaceholder}, nil
}

// addressOf returns the URL of a server's listening address for clients on this machine.
func addressOf(s config.Server) string {
	scheme, address := "http://", s.Listen
	if s.TLS.Cert != "" {
		scheme = "https://"
	}
	for _, all := range []string{"0.0.0.0:", "[::]:"} {
		if port, ok := strings.CutPrefix(address, all); ok {
			address = "127.0.0.1:" + port
		}
	}
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	return scheme + address
}

// importable returns the client's servers that can become sources, and the reasons why the
// others stay.
func (o *connectRun) importable(ctx context.Context, configFile string, state clients.State) (take []clients.Found, stay []string, err error) {
	if len(state.Servers) == 0 {
		return nil, nil, nil
	}
	result, err := clients.ReadFile(o.client.Import, state.File)
	if err != nil {
		return nil, nil, err
	}
	stay = result.Skipped
	for _, found := range result.Found {
		switch {
		case found.Entry == clients.EntryName:
		case len(found.Warnings) > 0:
			stay = append(stay, found.Entry+": "+found.Warnings[0])
		default:
			take = append(take, found)
		}
	}
	done, err := o.cli.importServers(ctx, configFile, take, true, false)
	if err != nil {
		return nil, nil, err
	}
	free := take[:0:0]
	for i, one := range done {
		if one.State == "there" {
			stay = append(stay, fmt.Sprintf("%s: %s has a source of that name", take[i].Entry, configFile))
			continue
		}
		free = append(free, take[i])
	}
	return free, stay, nil
}

func entryNames(found []clients.Found) []string {
	var names []string
	for _, f := range found {
		names = append(names, f.Entry)
	}
	return names
}

// show prints the change as a diff, without the secrets of the client's servers.
func (o *connectRun) show(change *clients.Change, take []clients.Found, stay []string, state clients.State) error {
	text := string(diff.Diff(change.File, change.Before, change.File, change.After))
	all, err := clients.ReadFile(o.client.Import, change.File)
	if err == nil {
		for _, found := range all.Found {
			for _, value := range slices.Sorted(maps.Values(found.Secrets)) {
				text = escapedPattern(value).ReplaceAllLiteralString(text, "…")
			}
		}
	}
	if o.asJSON {
		return o.screen.json(struct {
			Client   string   `json:"client"`
			File     string   `json:"file"`
			Diff     string   `json:"diff"`
			TakeOver []string `json:"take_over"`
			Stay     []string `json:"stay"`
		}{o.client.Name, change.File, text, orEmpty(entryNames(take)), orEmpty(stay)})
	}
	if err := o.screen.review(text); err != nil {
		return err
	}
	if o.takeOver {
		for _, found := range take {
			o.screen.say("takes over %s", found.Entry)
		}
		for _, reason := range stay {
			o.screen.say("stays: %s", reason)
		}
	} else if len(state.Servers) > 0 {
		o.screen.say("%s keeps %s: %s. To send them through Toolroom too, add --take-over", o.client.Title, count(len(state.Servers), "other server"), strings.Join(state.Servers, ", "))
	}
	return nil
}

// escapedPattern returns a pattern that matches a text in a config file, where any of its
// characters may be escaped.
func escapedPattern(text string) *regexp.Regexp {
	var b strings.Builder
	for _, r := range text {
		literal := regexp.QuoteMeta(string(r))
		escaped := regexp.QuoteMeta(strings.Trim(strconv.Quote(string(r)), `"`)) // \n
		fmt.Fprintf(&b, `(?:%s|\\%s|%s|\\u(?i:%04x))`, literal, literal, escaped, r)
	}
	return regexp.MustCompile(b.String())
}

func (o *connectRun) confirmChange(ctx context.Context) error {
	if o.yes {
		return nil
	}
	agreed, err := o.screen.confirm(ctx, "Write it?", "toolroom connect "+o.client.Name+" --yes")
	if err == nil && !agreed {
		err = toolroom.Errorf(toolroom.CodeDenied, "nothing was changed")
	}
	return err
}

// newToken creates a token for the client.
func (o *connectRun) newToken(ctx context.Context) (plaintext, id string, err error) {
	err = o.inRoom(ctx, func(r *app.App) error {
		made, t, err := token.Create(ctx, r.Parts().Tokens, token.Options{Name: o.client.Name, Subject: cmp.Or(o.User, o.client.Name), Set: o.set})
		plaintext, id = made, t.ID
		return o.recordIn(ctx, r, "tokens.create", changeArguments{Name: o.client.Name}, err)
	})
	return plaintext, id, err
}

func (o *connectRun) revoke(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	return o.inRoom(ctx, func(r *app.App) error {
		t, err := r.Parts().Tokens.Token(ctx, id)
		if err != nil || !t.Revoked.IsZero() {
			return nil //nolint:nilerr // it is gone already
		}
		return o.revokeToken(ctx, r, id)
	})
}

func (o *connectRun) report(record clients.Record) error {
	if o.asJSON {
		return nil // the change was printed
	}
	if len(record.Sources) > 0 {
		o.screen.say("added to %s: %s", record.Config, strings.Join(record.Sources, ", "))
	}
	if record.Exists {
		o.screen.say("The file as it was: %s", record.BackupPath(o.home))
	}
	file := ""
	if o.file != "" {
		file = " --file " + shellWord(o.file)
	}
	return o.screen.printf("connected %s; %s. Undo it: toolroom connect %s --undo%s\n", o.client.Title, o.client.Next, o.client.Name, file)
}

// undone is the result of --undo.
type undone struct {
	Client   string `json:"client"`
	File     string `json:"file"`
	Restored bool   `json:"restored"`
	// Exact means that the file is as it was, byte by byte.
	Exact bool `json:"exact"`
}

func (o *connectRun) runUndo(ctx context.Context) error {
	file := ""
	if o.file != "" {
		file = o.typedPath(o.file)
	}
	if o.dryRun {
		record, err := clients.Recorded(o.home, o.client, file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil {
			return toolroom.Errorf(toolroom.CodeNotFound, "%s was not connected from this home", o.client.Title).WithHint("see what is connected: toolroom connect")
		}
		if o.asJSON {
			return o.screen.json(undone{o.client.Name, record.File, false, false})
		}
		return o.screen.printf("would restore %s\n", record.File)
	}
	record, exact, err := clients.Undo(o.home, o.client, file)
	if err != nil {
		return err
	}
	o.removeSources(ctx, record)
	if err := errors.Join(o.removeSecrets(ctx, record), o.revoke(ctx, record.Token)); err != nil {
		return err
	}
	if o.asJSON {
		return o.screen.json(undone{o.client.Name, record.File, true, exact})
	}
	how := "as it was"
	if !exact {
		how = "without Toolroom; the client has changed it since, and these changes are kept"
	}
	return o.screen.printf("restored %s, %s\n", record.File, how)
}

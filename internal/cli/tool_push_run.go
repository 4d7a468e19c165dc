package cli

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/release"
)

// pushFromRun pushes a program that ran as a function, and prints it.
func (a *cli) pushFromRun(ctx context.Context, r *app.App, args []string, from *app.FromRunOptions, literals []string, u *release.Upload) error {
	const example = "toolroom tool push --from-run call_4xk2 --name open_issues"
	if len(args) > 0 || from.Name == "" {
		return usage(example, "--from-run takes the place of a file and needs --name")
	}
	from.Literals = map[string]json.RawMessage{}
	for _, one := range literals {
		name, value, ok := strings.Cut(one, "=")
		if !ok {
			return usage(example+" --param repo='\"toolroom/docs\"'", "--param %s is not NAME=JSON", one)
		}
		if !json.Valid([]byte(value)) {
			text, err := json.Marshal(value) // a text without quotes
			if err != nil {
				return err
			}
			value = string(text)
		}
		from.Literals[name] = json.RawMessage(value)
	}
	p, err := r.ProposeFromRun(ctx, *from)
	if err != nil {
		return err
	}
	pushed, err := r.PushProposal(ctx, p, u.Namespace, u.Message, a.author())
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.screen.json(pushed)
	}
	if err := a.screen.printf("%s", p.Upload.Files[p.Upload.File]); err != nil {
		return err
	}
	if n := len(p.Unrecorded); n > 0 {
		a.screen.say("its case makes real calls: %s had answers that are too long to record", count(n, "call"))
	}
	return a.printPushed([]release.Pushed{pushed})
}

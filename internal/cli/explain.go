package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	errorpages "github.com/toolroom/toolroom/docs/errors"
	"github.com/toolroom/toolroom/internal/nearest"
)

func (a *cli) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain an error code, or list the codes",
		Long: `Explain an error code: what happened, why, what to do, and an example. The code of a call
that failed is in its receipt and in --json.`,
		Example: `  toolroom explain
  toolroom explain approval_required`,
		Args: arguments(0, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return errorCodes(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.explain(strings.ToLower(args[0]))
			}
			if a.asJSON {
				return a.screen.json(toolroom.Codes())
			}
			var rows [][]string
			for _, code := range toolroom.Codes() {
				rows = append(rows, []string{string(code), summaryOf(errorpages.Page(code))})
			}
			return a.screen.table([]string{"CODE", "WHAT HAPPENED"}, rows)
		},
	}
	a.jsonFlag(c, "print JSON")
	return c
}

// effectCodes maps the effect of a rule to the code of a call that the rule stops, because
// people know the effect and not the code.
var effectCodes = map[string]string{"deny": string(toolroom.CodeDenied), "confirm": string(toolroom.CodeApprovalRequired)}

func (a *cli) explain(code string) error {
	code = cmp.Or(effectCodes[code], code)
	page := errorpages.Page(toolroom.Code(code))
	if page == "" {
		e := toolroom.Errorf(toolroom.CodeNotFound, "there is no error code %q", code)
		if near, ok := nearest.Of(code, errorCodes()); ok {
			return e.WithCLIHint("did you mean %s?", near)
		}
		return e.WithCLIHint("list the codes: toolroom explain")
	}
	info := toolroom.Code(code).Info()
	if a.asJSON {
		return a.screen.json(struct {
			Code      string `json:"code"`
			HTTP      int    `json:"http_status"`
			Exit      int    `json:"exit"`
			Retryable bool   `json:"retryable"`
			Page      string `json:"page"`
		}{code, info.HTTPStatus, info.Exit, info.Retryable, page})
	}
	retry := "a retry does not help by itself"
	if info.Retryable {
		retry = "a retry may help"
	}
	return a.screen.printf("%s\nExit code %d, HTTP %d; %s.\n", strings.TrimSpace(page), info.Exit, info.HTTPStatus, retry)
}

// summaryOf returns the first sentence of a page's section "What happened".
func summaryOf(page string) string {
	_, text, _ := strings.Cut(page, "## What happened\n")
	text, _, _ = strings.Cut(text, "\n\n")
	sentence, _, more := strings.Cut(oneLine(text), ". ")
	if more {
		sentence += "."
	}
	return sentence
}

func errorCodes() []string {
	var words []string
	for _, code := range toolroom.Codes() {
		words = append(words, string(code))
	}
	return words
}

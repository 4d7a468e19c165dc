package cli

import (
	"fmt"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/server"
)

// listingLine describes what MCP clients see.
func listingLine(l server.Listing) string {
	who := "MCP clients see"
	if l.Set != "" {
		who = "clients of the tool set " + l.Set + " see"
	}
	line := fmt.Sprintf("%s %s, %s (mode %s)", who, count(l.Tools, "tool"), tokens(l.Tokens), l.Mode)
	if l.Mode != "direct" {
		line += fmt.Sprintf(", of %s, %s", count(l.AllTools, "tool"), tokens(l.AllTokens))
	}
	return line
}

func tokens(n int) string {
	if n >= 1000 {
		return fmt.Sprintf("about %d,%03d tokens", n/1000, n%1000)
	}
	return fmt.Sprintf("about %d tokens", n)
}

// checkListings returns doctor's checks of the tools that MCP clients see, with and without a
// tool set.
func checkListings(r *app.App) []app.Check {
	all, err := server.Listings(r)
	if err != nil {
		return []app.Check{{Name: "MCP clients", Status: app.CheckFail, Detail: err.Error()}}
	}
	var checks []app.Check
	for _, l := range all {
		c := app.Check{Name: "MCP clients", Status: app.CheckOK, Detail: listingLine(l)}
		key := "expose.mode"
		if l.Set != "" {
			c.Name, key = "tool set "+l.Set, "sets."+l.Set+".expose.mode"
		}
		switch {
		case l.Large():
			c.Status, c.Fix = app.CheckWarn, "set "+key+" to auto or search"
		case l.Set != "" && l.AllTools == 0:
			c.Status, c.Fix = app.CheckWarn, "its allow list or profile selects no tool: toolroom policy explain --set "+l.Set+" ID"
		}
		checks = append(checks, c)
	}
	return checks
}

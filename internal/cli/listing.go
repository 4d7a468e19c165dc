package cli

import (
	"fmt"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/server"
)

// listingLine describes what MCP clients see.
func listingLine(l server.Listing) string {
	line := fmt.Sprintf("MCP clients see %s, %s (mode %s)", count(l.Tools, "tool"), tokens(l.Tokens), l.Mode)
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

// checkListing is the check of doctor for what MCP clients see.
func checkListing(r *app.App) app.Check {
	c := app.Check{Name: "MCP clients", Status: app.CheckOK}
	l, err := server.ListingOf(r)
	if err != nil {
		c.Status, c.Detail = app.CheckFail, err.Error()
		return c
	}
	c.Detail = listingLine(l)
	if l.Mode == "direct" && l.Large() {
		c.Status, c.Fix = app.CheckWarn, "set expose.mode to auto or search"
	}
	return c
}

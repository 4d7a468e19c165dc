package openapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// output sets the output schema if there is exactly one schema for success and it is JSON
// and an object. With several, the value could satisfy only one of them.
func (i *importer) output(o *operation, n *Node) error {
	schema, err := i.successSchema(n)
	if err != nil || schema == nil {
		return err
	}
	var uses []*definition
	converted, err := i.responses.convert(schema, &uses)
	if err != nil {
		return err
	}
	object, ok := converted.(map[string]any)
	if !ok {
		return nil
	}
	if object["type"] != "object" {
		target, err := i.set.Resolve(schema)
		if err != nil {
			return err
		}
		if target.Get("type").Text() != "object" || target.Get("nullable").True() {
			return nil
		}
		// Clients look for the type in the schema itself, not behind $ref.
		object["type"] = "object"
	}
	encoded, err := schemaText(object, uses)
	if errors.Is(err, errTooLarge) {
		o.addNote("The schema of the answer is left out, because %v.", errTooLarge)
		return nil
	}
	o.tool.OutputSchema = encoded
	return err
}

// successSchema returns the schema of the only JSON response for success, or nil.
func (i *importer) successSchema(n *Node) (*Node, error) {
	var found *Node
	for status, response := range n.Get("responses").Members() {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		response, err := i.set.Resolve(response)
		if err != nil {
			return nil, err
		}
		content := response.Get("content")
		if content.Len() == 0 {
			continue // A response without a body has no value to check.
		}
		name, media := chooseMedia(content)
		if found != nil || content.Len() > 1 || encodingOf(name) != jsonBody || !media.Has("schema") {
			return nil, nil
		}
		found = media.Get("schema")
	}
	return found, nil
}

// addNote adds a sentence to the notes of the tool.
func (o *operation) addNote(format string, args ...any) {
	if o.tool.Notes != "" {
		o.tool.Notes += "\n"
	}
	o.tool.Notes += fmt.Sprintf(format, args...)
}

// addNotes adds facts that the schemas lack: deprecation, paging, credentials.
func (i *importer) addNotes(o *operation, n *Node) {
	if n.Get("deprecated").True() {
		o.addNote("This operation is deprecated.")
	}
	i.noteSecurity(o)
	i.notePages(o, n)
}

func (i *importer) noteSecurity(o *operation) {
	if len(o.security) == 0 {
		return
	}
	if _, ok := chooseSecurity(o.security, i.config.Auth); ok {
		return
	}
	for _, needed := range o.security {
		if !slices.ContainsFunc(needed, func(s scheme) bool { return i.config.Auth[s.name] == "" && !hasHeader(i.config.Headers, s.header()) }) {
			return
		}
	}
	var ways []string
	for _, needed := range o.security {
		ways = append(ways, strings.Join(schemeNames(needed), " and "))
	}
	o.addNote(MissingCredentials+"set auth of the source for %s.", strings.Join(ways, ", or for "))
}

// MissingCredentials begins the note of a tool whose operation needs credentials that the
// source does not have.
const MissingCredentials = "It needs credentials that are not configured: "

// Names that services use for paging, as found in real documents, in lower case and without
// punctuation.
var (
	cursorNames = []string{"cursor", "pagetoken", "nexttoken", "continuationtoken", "startingafter", "after", "starttoken", "marker", "continue", "next"}
	numberNames = []string{"page", "pagenumber", "pageno", "pageindex"}
	offsetNames = []string{"offset", "skip", "start", "startat", "startindex"}
	sizeNames   = []string{"limit", "perpage", "pagesize", "size", "maxresults", "top", "count", "take", "first"}
	nextNames   = []string{"next", "nextcursor", "nextpagetoken", "nexttoken", "nextpage", "nextlink", "cursor", "endcursor", "hasmore", "hasnextpage", "continuationtoken"}
)

func (i *importer) notePages(o *operation, n *Node) {
	cursor, number := queryNamed(o, cursorNames), queryNamed(o, numberNames)
	offset, size := queryNamed(o, offsetNames), queryNamed(o, sizeNames)
	var how []string
	switch {
	case cursor != "":
		how = append(how, cursor+" continues where the last answer ended")
	case number != "":
		how = append(how, number+" is the number of the page")
	case offset != "" && size != "":
		how = append(how, offset+" is how many to leave out")
	}
	if len(how) > 0 && size != "" {
		how = append(how, size+" is how many to give")
	}
	if field := i.nextField(n); field != "" && len(how) > 0 {
		how = append(how, field+" of the answer says whether and where it goes on")
	}
	if i.linksToNext(n) {
		how = append(how, "when there is a next page, the answer ends with what to ask for it")
	}
	if len(how) > 0 {
		o.addNote("The answer comes in pages: %s.", strings.Join(how, "; "))
	}
}

func queryNamed(o *operation, names []string) string {
	for _, p := range o.parameters {
		if p.in == "query" && isNamed(p.name, names) {
			return p.argument
		}
	}
	return ""
}

func isNamed(name string, names []string) bool {
	plain := strings.NewReplacer("_", "", "-", "", "$", "", ".", "", "[", "", "]", "").Replace(strings.ToLower(name))
	return slices.Contains(names, plain)
}

// nextField finds the field of the response that names the next page, at most one level
// deep. Broken references have been reported before.
func (i *importer) nextField(n *Node) string {
	schema, err := i.successSchema(n)
	if err != nil {
		return ""
	}
	if schema, err = i.set.Resolve(schema); err != nil {
		return ""
	}
	looked := 0
	for name := range schema.Get("properties").Members() {
		if looked++; looked > maxListed {
			break
		}
		if isNamed(name, nextNames) {
			return name
		}
	}
	return ""
}

// linksToNext reports whether a response for success has the Link header.
func (i *importer) linksToNext(n *Node) bool {
	for status, response := range n.Get("responses").Members() {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		response, err := i.set.Resolve(response)
		if err != nil {
			return false
		}
		if response.At("headers", "Link") != nil || response.At("headers", "link") != nil {
			return true
		}
	}
	return false
}

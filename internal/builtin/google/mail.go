package google

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/document"
	"github.com/toolroom/toolroom/source"
)

// MailSearchArgs are the arguments of gmail:search.
type MailSearchArgs struct {
	Query string `json:"query,omitempty" jsonschema:"search as in Gmail, such as from:ann is:unread newer_than:7d; all mail if left out"`
	Limit int    `json:"limit,omitempty" jsonschema:"the most mails to return"`
}

// Mails is the value of gmail:search.
type Mails struct {
	Mails []Mail `json:"mails" jsonschema:"the mails, newest first"`
	More  bool   `json:"more,omitempty" jsonschema:"there are more"`
}

// Mail describes a mail.
type Mail struct {
	ID      string `json:"id" jsonschema:"id for gmail:read"`
	Thread  string `json:"thread" jsonschema:"id of its conversation"`
	From    string `json:"from" jsonschema:"the sender"`
	To      string `json:"to" jsonschema:"the recipients"`
	Subject string `json:"subject" jsonschema:"the subject"`
	Date    string `json:"date" jsonschema:"when it was received"`
	Snippet string `json:"snippet" jsonschema:"its beginning"`
	Unread  bool   `json:"unread" jsonschema:"it has not been read"`
}

// message is a mail as the API returns it.
type message struct {
	ID, ThreadID string
	LabelIDs     []string `json:"labelIds"`
	Snippet      string
	InternalDate string
	Payload      part
}

type part struct {
	MIMEType string `json:"mimeType"`
	Filename string
	Headers  []struct{ Name, Value string }
	Body     struct {
		Data string
		Size int
	}
	Parts []part
}

func (m message) header(name string) string {
	for _, h := range m.Payload.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

func (m message) mail() Mail {
	out := Mail{ID: m.ID, Thread: m.ThreadID, From: m.header("From"), To: m.header("To"), Subject: m.header("Subject"), Date: m.header("Date"), Snippet: m.Snippet}
	if ms, err := strconv.ParseInt(m.InternalDate, 10, 64); err == nil {
		out.Date = time.UnixMilli(ms).UTC().Format(time.RFC3339)
	}
	for _, l := range m.LabelIDs {
		out.Unread = out.Unread || l == "UNREAD"
	}
	return out
}

func (g *google) mailSearch() builtin.Tool {
	return builtin.MustTool(builtin.Spec[MailSearchArgs, Mails]{
		Tool: definition("gmail:search", "Search Gmail", "Search or list Gmail mail: find emails in the inbox by sender, subject, words, date or label, such as new and unread ones.",
			map[string]any{"query": "is:unread newer_than:2d", "limit": 5}),
		Arguments: map[string]builtin.Property{"query": {"maxLength": 1000}, "limit": limitProperty(50, 10)},
		Predict:   func(*source.Request, MailSearchArgs) []toolroom.Effect { return g.readEffects("gmail") },
		Run: func(ctx context.Context, req *source.Request, in MailSearchArgs) (Mails, []toolroom.Content, error) {
			out, text := Mails{Mails: []Mail{}}, ""
			query := url.Values{"maxResults": {itoa(cmp.Or(in.Limit, 10))}}
			if in.Query != "" {
				query.Set("q", in.Query)
			}
			var list struct {
				Messages      []struct{ ID string }
				NextPageToken string
			}
			if err := g.get(ctx, req.Identity, "gmail", "/gmail/v1/users/me/messages", query, &list); err != nil {
				return out, nil, err
			}
			for _, one := range list.Messages {
				var m message
				fields := url.Values{"format": {"metadata"}, "metadataHeaders": {"From", "To", "Subject", "Date"}}
				if err := g.get(ctx, req.Identity, "gmail", "/gmail/v1/users/me/messages/"+url.PathEscape(one.ID), fields, &m); err != nil {
					return out, nil, err
				}
				mail := m.mail()
				out.Mails = append(out.Mails, mail)
				text += joinNonEmpty(mail.ID, mail.Date, mail.From, mail.Subject) + "    " + mail.Snippet + "\n"
			}
			out.More = list.NextPageToken != ""
			return out, builtin.Text(cmp.Or(text, "There is no such mail.")), nil
		},
	})
}

// ID names an object in arguments.
type ID struct {
	ID string `json:"id" jsonschema:"its id"`
}

// FullMail is the value of gmail:read.
type FullMail struct {
	Mail
	Text        string       `json:"text" jsonschema:"its text; HTML as Markdown"`
	Attachments []Attachment `json:"attachments" jsonschema:"its attachments"`
}

// Attachment describes a file of a mail.
type Attachment struct {
	Name     string `json:"name" jsonschema:"name of the file"`
	MIMEType string `json:"mime_type" jsonschema:"its type"`
	Bytes    int    `json:"bytes" jsonschema:"its size"`
}

func (g *google) mailRead() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ID, FullMail]{
		Tool:      definition("gmail:read", "Read a mail", "Read one email of Gmail: its whole text, sender, recipients, and which attachments it has.", map[string]any{"id": "18c2f4711"}),
		Arguments: map[string]builtin.Property{"id": nameProperty},
		Predict:   func(*source.Request, ID) []toolroom.Effect { return g.readEffects("gmail") },
		Run: func(ctx context.Context, req *source.Request, in ID) (FullMail, []toolroom.Content, error) {
			var m message
			if err := g.get(ctx, req.Identity, "gmail", "/gmail/v1/users/me/messages/"+url.PathEscape(in.ID), url.Values{"format": {"full"}}, &m); err != nil {
				return FullMail{}, nil, err
			}
			out := FullMail{Mail: m.mail(), Attachments: []Attachment{}}
			out.Text = m.Payload.text(ctx, 0)
			m.Payload.collectAttachments(&out.Attachments, 0)
			text := joinNonEmpty("From: "+out.From) + joinNonEmpty("To: "+out.To) + joinNonEmpty("Subject: "+out.Subject) + joinNonEmpty("Date: "+out.Date) + "\n" + out.Text
			for _, a := range out.Attachments {
				text += "\n[" + a.Name + ", " + a.MIMEType + ", " + itoa(a.Bytes) + " bytes]"
			}
			return out, builtin.Text(text), nil
		},
	})
}

const maxDepth = 20

// text returns the text of a mail: the plain text if there is one, else the HTML as Markdown.
func (p part) text(ctx context.Context, depth int) string {
	if depth > maxDepth || p.Filename != "" {
		return ""
	}
	data, err := base64.URLEncoding.DecodeString(p.Body.Data)
	if err != nil {
		data, _ = base64.RawURLEncoding.DecodeString(p.Body.Data) // without padding
	}
	switch {
	case p.MIMEType == "text/plain":
		return strings.ToValidUTF8(string(data), "\uFFFD")
	case p.MIMEType == "text/html":
		page, err := document.HTML(ctx, data, &url.URL{Scheme: "https", Host: "mail.google.com"}, true)
		if err != nil {
			return ""
		}
		return page.Markdown
	}
	var texts []string
	kinds := []string{""}
	if p.MIMEType == "multipart/alternative" {
		kinds = []string{"text/plain", ""}
	}
	for _, kind := range kinds {
		for _, one := range p.Parts {
			if kind != "" && one.MIMEType != kind {
				continue
			}
			if text := one.text(ctx, depth+1); text != "" {
				texts = append(texts, text)
			}
		}
		if len(texts) > 0 {
			break
		}
	}
	return strings.Join(texts, "\n\n")
}

func (p part) collectAttachments(to *[]Attachment, depth int) {
	if p.Filename != "" {
		*to = append(*to, Attachment{p.Filename, p.MIMEType, p.Body.Size})
	}
	for _, one := range p.Parts {
		if depth < maxDepth {
			one.collectAttachments(to, depth+1)
		}
	}
}

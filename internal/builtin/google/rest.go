package google

import (
	"cmp"
	"context"
	"mime"
	"net/url"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/document"
	"github.com/toolroom/toolroom/source"
)

// Calendars is the value of calendar:list.
type Calendars struct {
	Calendars []Calendar `json:"calendars" jsonschema:"the calendars"`
}

// Calendar is a calendar.
type Calendar struct {
	ID      string `json:"id" jsonschema:"id for calendar:events"`
	Name    string `json:"name" jsonschema:"its name"`
	Zone    string `json:"timezone" jsonschema:"its time zone"`
	Primary bool   `json:"primary,omitempty" jsonschema:"it is the user's own"`
}

func (g *google) calendars() builtin.Tool {
	return builtin.MustTool(builtin.Spec[struct{}, Calendars]{
		Tool:    definition("calendar:list", "List calendars", "List which calendars you have in Google Calendar: the user's own and shared calendars.", map[string]any{}),
		Predict: func(*source.Request, struct{}) []toolroom.Effect { return g.readEffects("calendar") },
		Run: func(ctx context.Context, req *source.Request, _ struct{}) (Calendars, []toolroom.Content, error) {
			out, text := Calendars{Calendars: []Calendar{}}, ""
			var list struct {
				Items []struct {
					ID, Summary, TimeZone string
					Primary               bool
				}
			}
			err := g.get(ctx, req.Identity, "calendar", "/calendar/v3/users/me/calendarList", url.Values{"maxResults": {"250"}}, &list)
			for _, c := range list.Items {
				out.Calendars = append(out.Calendars, Calendar{c.ID, c.Summary, c.TimeZone, c.Primary})
				text += joinNonEmpty(c.ID, c.Summary)
			}
			return out, builtin.Text(cmp.Or(text, "There are no calendars.")), err
		},
	})
}

// EventArgs are the arguments of calendar:events.
type EventArgs struct {
	Calendar string `json:"calendar,omitempty" jsonschema:"id of the calendar"`
	From     string `json:"from,omitempty" jsonschema:"first time, such as 2026-12-01 or 2026-12-01T09:00:00Z; now if left out"`
	To       string `json:"to,omitempty" jsonschema:"last time; no end if left out"`
	Query    string `json:"query,omitempty" jsonschema:"words that events must contain"`
	Limit    int    `json:"limit,omitempty" jsonschema:"the most events to return"`
}

// Events is the value of calendar:events.
type Events struct {
	Events []Event `json:"events" jsonschema:"the events, by time"`
	More   bool    `json:"more,omitempty" jsonschema:"there are more"`
}

// Event is an event.
type Event struct {
	ID        string   `json:"id" jsonschema:"its id"`
	Title     string   `json:"title" jsonschema:"what it is"`
	Start     string   `json:"start" jsonschema:"when it starts; a date alone for whole days"`
	End       string   `json:"end" jsonschema:"when it ends"`
	Place     string   `json:"place,omitempty" jsonschema:"where it is"`
	Text      string   `json:"text,omitempty" jsonschema:"its description"`
	Attendees []string `json:"attendees,omitempty" jsonschema:"who takes part"`
	Status    string   `json:"status" jsonschema:"confirmed, tentative or cancelled"`
	Link      string   `json:"link,omitempty" jsonschema:"address of the event or of the call"`
}

// parseTime converts a date or time to the API's format; an empty one means fallback.
func parseTime(text string, fallback time.Time) (string, error) {
	if text == "" {
		if fallback.IsZero() {
			return "", nil
		}
		return fallback.UTC().Format(time.RFC3339), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Format(time.RFC3339), nil
		}
	}
	return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "%.50q is not a time", text).WithHint("write it like 2026-12-01 or 2026-12-01T09:00:00+01:00")
}

func (g *google) events() builtin.Tool {
	return builtin.MustTool(builtin.Spec[EventArgs, Events]{
		Tool: definition("calendar:events", "Show calendar events", "Show events and appointments in the user's Google calendar: meetings of today, this week or any time, with place and attendees.",
			map[string]any{"from": "2026-12-01", "to": "2026-12-08"}),
		Arguments: map[string]builtin.Property{
			"calendar": {"default": "primary", "maxLength": 256}, "from": {"maxLength": 40}, "to": {"maxLength": 40}, "query": {"maxLength": 500}, "limit": limitProperty(250, 50),
		},
		Predict: func(*source.Request, EventArgs) []toolroom.Effect { return g.readEffects("calendar") },
		Run:     g.runEvents,
	})
}

func (g *google) runEvents(ctx context.Context, req *source.Request, in EventArgs) (Events, []toolroom.Content, error) {
	out, text := Events{Events: []Event{}}, ""
	query := url.Values{"singleEvents": {"true"}, "orderBy": {"startTime"}, "maxResults": {itoa(cmp.Or(in.Limit, 50))}}
	from, err := parseTime(in.From, time.Now())
	if err != nil {
		return out, nil, err
	}
	to, err := parseTime(in.To, time.Time{})
	if err != nil {
		return out, nil, err
	}
	for name, value := range map[string]string{"timeMin": from, "timeMax": to, "q": in.Query} {
		if value != "" {
			query.Set(name, value)
		}
	}
	type when struct{ Date, DateTime string }
	var list struct {
		Items []struct {
			ID, Summary, Location, Description, Status, HTMLLink, HangoutLink string
			Start, End                                                        when
			Attendees                                                         []struct{ Email, DisplayName, ResponseStatus string }
		}
		NextPageToken string
	}
	if err := g.get(ctx, req.Identity, "calendar", "/calendar/v3/calendars/"+url.PathEscape(cmp.Or(in.Calendar, "primary"))+"/events", query, &list); err != nil {
		return out, nil, err
	}
	for _, e := range list.Items {
		one := Event{
			ID: e.ID, Title: e.Summary, Start: cmp.Or(e.Start.DateTime, e.Start.Date), End: cmp.Or(e.End.DateTime, e.End.Date),
			Place: e.Location, Text: e.Description, Status: e.Status, Link: cmp.Or(e.HangoutLink, e.HTMLLink),
		}
		for _, a := range e.Attendees {
			one.Attendees = append(one.Attendees, strings.TrimSpace(cmp.Or(a.DisplayName, a.Email)+" "+a.ResponseStatus))
		}
		out.Events = append(out.Events, one)
		text += joinNonEmpty(one.Start, one.End, one.Title, one.Place)
	}
	out.More = list.NextPageToken != ""
	return out, builtin.Text(cmp.Or(text, "There are no events.")), nil
}

// Document is the value of docs:read and drive:read.
type Document struct {
	ID       string `json:"id" jsonschema:"its id"`
	Title    string `json:"title" jsonschema:"its title or name"`
	MIMEType string `json:"mime_type" jsonschema:"its type"`
	Text     string `json:"text" jsonschema:"its text"`
}

func (g *google) docRead() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ID, Document]{
		Tool:      definition("docs:read", "Read a Google document", "Read a document of Google Docs: its text, with headings, lists and tables. The id is in its address.", map[string]any{"id": "1AbC4711"}),
		Arguments: map[string]builtin.Property{"id": nameProperty},
		Predict:   func(*source.Request, ID) []toolroom.Effect { return g.readEffects("docs") },
		Run: func(ctx context.Context, req *source.Request, in ID) (Document, []toolroom.Content, error) {
			var d struct {
				DocumentID, Title string
				Body              struct{ Content []element }
			}
			err := g.get(ctx, req.Identity, "docs", "/v1/documents/"+url.PathEscape(in.ID), url.Values{}, &d)
			var b strings.Builder
			write(&b, d.Body.Content, 0)
			out := Document{in.ID, d.Title, "application/vnd.google-apps.document", strings.TrimSpace(b.String())}
			return out, builtin.Text("# " + out.Title + "\n\n" + out.Text), err
		},
	})
}

// element is a part of a document as the API returns it.
type element struct {
	Paragraph *struct {
		Elements       []struct{ TextRun *struct{ Content string } }
		ParagraphStyle struct{ NamedStyleType string }
		Bullet         *struct{ NestingLevel int }
	}
	Table *struct {
		TableRows []struct {
			TableCells []struct{ Content []element }
		}
	}
}

// write writes the elements of a document as Markdown.
func write(b *strings.Builder, elements []element, depth int) {
	for _, e := range elements {
		if p := e.Paragraph; p != nil {
			text := ""
			for _, run := range p.Elements {
				if run.TextRun != nil {
					text += run.TextRun.Content
				}
			}
			if level, ok := strings.CutPrefix(p.ParagraphStyle.NamedStyleType, "HEADING_"); ok && len(level) == 1 && strings.TrimSpace(text) != "" {
				text = strings.Repeat("#", int(level[0]-'0')) + " " + text
			}
			if p.Bullet != nil {
				text = strings.Repeat("  ", min(max(p.Bullet.NestingLevel, 0), 9)) + "- " + text
			}
			b.WriteString(text)
		}
		if e.Table == nil || depth > maxDepth {
			continue
		}
		for _, row := range e.Table.TableRows {
			for _, cell := range row.TableCells {
				var inner strings.Builder
				write(&inner, cell.Content, depth+1)
				b.WriteString("| " + strings.Join(strings.Fields(inner.String()), " ") + " ")
			}
			b.WriteString("|\n")
		}
	}
}

// DriveSearchArgs are the arguments of drive:search.
type DriveSearchArgs struct {
	Query  string `json:"query,omitempty" jsonschema:"words in the name or text of files; the latest files if left out"`
	Folder string `json:"folder,omitempty" jsonschema:"id of a folder, for what is in it"`
	Limit  int    `json:"limit,omitempty" jsonschema:"the most files to return"`
}

// Files is the value of drive:search.
type Files struct {
	Files []File `json:"files" jsonschema:"the files"`
	More  bool   `json:"more,omitempty" jsonschema:"there are more"`
}

// File is a file of Drive.
type File struct {
	ID       string `json:"id" jsonschema:"id for drive:read"`
	Name     string `json:"name" jsonschema:"its name"`
	MIMEType string `json:"mimeType" jsonschema:"its type"`
	Modified string `json:"modifiedTime,omitempty" jsonschema:"when it was changed"`
	Size     string `json:"size,omitempty" jsonschema:"its size in bytes"`
	Link     string `json:"webViewLink,omitempty" jsonschema:"its address"`
}

const fileFields = "id,name,mimeType,modifiedTime,size,webViewLink"

func (g *google) driveSearch() builtin.Tool {
	return builtin.MustTool(builtin.Spec[DriveSearchArgs, Files]{
		Tool:      definition("drive:search", "Search Google Drive", "Search Google Drive: find files, documents and spreadsheets by words in their name or text, or list a folder.", map[string]any{"query": "budget 2026"}),
		Arguments: map[string]builtin.Property{"query": {"maxLength": 500}, "folder": nameProperty, "limit": limitProperty(200, 25)},
		Predict:   func(*source.Request, DriveSearchArgs) []toolroom.Effect { return g.readEffects("drive") },
		Run: func(ctx context.Context, req *source.Request, in DriveSearchArgs) (Files, []toolroom.Content, error) {
			conditions := []string{"trashed = false"}
			if in.Query != "" {
				conditions = append(conditions, "(name contains "+quoteQuery(in.Query)+" or fullText contains "+quoteQuery(in.Query)+")")
			}
			if in.Folder != "" {
				conditions = append(conditions, quoteQuery(in.Folder)+" in parents")
			}
			query := url.Values{
				"q": {strings.Join(conditions, " and ")}, "pageSize": {itoa(cmp.Or(in.Limit, 25))}, "fields": {"nextPageToken,files(" + fileFields + ")"},
				"supportsAllDrives": {"true"}, "includeItemsFromAllDrives": {"true"},
			}
			if in.Query == "" {
				query.Set("orderBy", "modifiedTime desc") // searches of texts cannot be ordered
			}
			out, text := Files{}, ""
			var list struct {
				Files         []File
				NextPageToken string
			}
			err := g.get(ctx, req.Identity, "drive", "/drive/v3/files", query, &list)
			out.Files, out.More = append([]File{}, list.Files...), list.NextPageToken != ""
			for _, f := range out.Files {
				text += joinNonEmpty(f.ID, f.Modified, f.Name, f.MIMEType)
			}
			return out, builtin.Text(cmp.Or(text, "There are no such files.")), err
		},
	})
}

// exports maps the types of Google's own files to the types as which they are exported.
var exports = map[string]string{
	"application/vnd.google-apps.document": "text/plain", "application/vnd.google-apps.spreadsheet": "text/csv", "application/vnd.google-apps.presentation": "text/plain",
}

func (g *google) driveRead() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ID, Document]{
		Tool: definition("drive:read", "Read a file of Google Drive",
			"Read a file of Google Drive as text by its id: a document, sheet (as CSV), presentation, PDF, Word or text file.", map[string]any{"id": "1AbC4711"}),
		Arguments: map[string]builtin.Property{"id": nameProperty},
		Predict:   func(*source.Request, ID) []toolroom.Effect { return g.readEffects("drive") },
		Run: func(ctx context.Context, req *source.Request, in ID) (Document, []toolroom.Content, error) {
			path := "/drive/v3/files/" + url.PathEscape(in.ID)
			var f File
			if err := g.get(ctx, req.Identity, "drive", path, url.Values{"fields": {fileFields}, "supportsAllDrives": {"true"}}, &f); err != nil {
				return Document{}, nil, err
			}
			query := url.Values{"alt": {"media"}, "supportsAllDrives": {"true"}}
			if form, ok := exports[f.MIMEType]; ok {
				path, query = path+"/export", url.Values{"mimeType": {form}}
			} else if strings.HasPrefix(f.MIMEType, "application/vnd.google-apps.") {
				return Document{}, nil, toolroom.Errorf(toolroom.CodeUnsupported, "%.100s is a %s, which has no text", f.Name, f.MIMEType)
			}
			data, kind, err := g.bytes(ctx, req.Identity, "drive", path, query, maxFile)
			if err != nil {
				return Document{}, nil, err
			}
			out := Document{ID: in.ID, Title: f.Name, MIMEType: f.MIMEType}
			out.Text, err = textOf(ctx, data, kind, f)
			return out, builtin.Text(out.Text), err
		},
	})
}

// textOf returns the text of a file.
func textOf(ctx context.Context, data []byte, kind string, f File) (text string, err error) {
	kind, _, _ = mime.ParseMediaType(cmp.Or(kind, f.MIMEType)) // an invalid one is none
	switch {
	case kind == "application/pdf":
		text, _, err = document.PDF(ctx, data, 1, 1<<30)
		return text, err
	case strings.HasSuffix(kind, "wordprocessingml.document"):
		return document.DOCX(ctx, data)
	case kind == "text/html":
		page, err := document.HTML(ctx, data, &url.URL{Scheme: "https", Host: "drive.google.com"}, true)
		return page.Markdown, err
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "json"), strings.HasSuffix(kind, "xml"):
		return strings.ToValidUTF8(strings.TrimPrefix(string(data), "\uFEFF"), "\uFFFD"), nil
	}
	return "", toolroom.Errorf(toolroom.CodeUnsupported, "%.100s is %s, whose text cannot be read", f.Name, f.MIMEType)
}

// TaskLists is the value of tasks:lists.
type TaskLists struct {
	Lists []TaskList `json:"lists" jsonschema:"the lists"`
}

// TaskList is a list of tasks.
type TaskList struct {
	ID    string `json:"id" jsonschema:"id for tasks:list"`
	Title string `json:"title" jsonschema:"its title"`
}

func (g *google) taskLists() builtin.Tool {
	return builtin.MustTool(builtin.Spec[struct{}, TaskLists]{
		Tool:    definition("tasks:lists", "List task lists", "List which to-do lists the user has in Google Tasks.", map[string]any{}),
		Predict: func(*source.Request, struct{}) []toolroom.Effect { return g.readEffects("tasks") },
		Run: func(ctx context.Context, req *source.Request, _ struct{}) (TaskLists, []toolroom.Content, error) {
			out, text := TaskLists{}, ""
			var list struct{ Items []TaskList }
			err := g.get(ctx, req.Identity, "tasks", "/tasks/v1/users/@me/lists", url.Values{"maxResults": {"100"}}, &list)
			out.Lists = append([]TaskList{}, list.Items...)
			for _, l := range out.Lists {
				text += joinNonEmpty(l.ID, l.Title)
			}
			return out, builtin.Text(cmp.Or(text, "There are no lists.")), err
		},
	})
}

// TaskArgs are the arguments of tasks:list.
type TaskArgs struct {
	List      string `json:"list,omitempty" jsonschema:"id of the list; the default is the user's first"`
	Completed bool   `json:"completed,omitempty" jsonschema:"also tasks that are done"`
}

// Tasks is the value of tasks:list.
type Tasks struct {
	Tasks []Task `json:"tasks" jsonschema:"the tasks"`
}

// Task is a task.
type Task struct {
	ID     string `json:"id" jsonschema:"its id"`
	Title  string `json:"title" jsonschema:"what is to do"`
	Notes  string `json:"notes,omitempty" jsonschema:"notes about it"`
	Status string `json:"status" jsonschema:"needsAction or completed"`
	Due    string `json:"due,omitempty" jsonschema:"when it is due"`
	Parent string `json:"parent,omitempty" jsonschema:"id of the task that it is a part of"`
}

const defaultList = "@default"

func (g *google) taskList() builtin.Tool {
	return builtin.MustTool(builtin.Spec[TaskArgs, Tasks]{
		Tool:      definition("tasks:list", "List tasks", "List the user's open tasks and to-dos in Google Tasks, with due dates and notes.", map[string]any{}),
		Arguments: map[string]builtin.Property{"list": nameProperty},
		Predict:   func(*source.Request, TaskArgs) []toolroom.Effect { return g.readEffects("tasks") },
		Run: func(ctx context.Context, req *source.Request, in TaskArgs) (Tasks, []toolroom.Content, error) {
			query := url.Values{"maxResults": {"100"}, "showCompleted": {"false"}}
			if in.Completed {
				query.Set("showCompleted", "true")
				query.Set("showHidden", "true")
			}
			out, text := Tasks{}, ""
			var list struct{ Items []Task }
			err := g.get(ctx, req.Identity, "tasks", "/tasks/v1/lists/"+url.PathEscape(cmp.Or(in.List, defaultList))+"/tasks", query, &list)
			out.Tasks = append([]Task{}, list.Items...)
			for _, t := range out.Tasks {
				text += joinNonEmpty(t.ID, t.Due, t.Status, t.Title)
			}
			return out, builtin.Text(cmp.Or(text, "There is nothing to do.")), err
		},
	})
}

// TaskID names a task in arguments.
type TaskID struct {
	ID   string `json:"id" jsonschema:"id of the task, as tasks:list shows it"`
	List string `json:"list,omitempty" jsonschema:"id of its list; the default is the user's first"`
}

func (g *google) taskGet() builtin.Tool {
	return builtin.MustTool(builtin.Spec[TaskID, Task]{
		Tool:      definition("tasks:get", "Show a task", "Show one task of Google Tasks with its notes and due date, by its id.", map[string]any{"id": "dGFzazQ3MTE"}),
		Arguments: map[string]builtin.Property{"id": nameProperty, "list": nameProperty},
		Predict:   func(*source.Request, TaskID) []toolroom.Effect { return g.readEffects("tasks") },
		Run: func(ctx context.Context, req *source.Request, in TaskID) (Task, []toolroom.Content, error) {
			var t Task
			err := g.get(ctx, req.Identity, "tasks", "/tasks/v1/lists/"+url.PathEscape(cmp.Or(in.List, defaultList))+"/tasks/"+url.PathEscape(in.ID), url.Values{}, &t)
			return t, builtin.Text(joinNonEmpty(t.Title, t.Due, t.Status) + t.Notes), err
		},
	})
}

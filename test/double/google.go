// Package double has services that stand for real ones in tests.
package double

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Google is a server that answers like Google's APIs and its login, as they are documented.
// It is strict: a request that the documentation does not allow is refused.
func Google() http.Handler {
	type object = map[string]any
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v) // to a test
	}
	refuse := func(w http.ResponseWriter, status int, reason, message string) {
		answer(w, status, object{"error": object{"code": status, "message": message, "status": reason, "errors": []object{{"reason": reason}}}})
	}
	encode := func(text string) string { return base64.URLEncoding.EncodeToString([]byte(text)) }
	mux := http.NewServeMux()
	headers := []object{{"name": "From", "value": "Ann <ann@example.com>"}, {"name": "To", "value": "bob@example.com"}, {"name": "Subject", "value": "Invoice"}, {"name": "Date", "value": "Mon, 23 Nov 2026 10:00:00 +0000"}}
	mux.HandleFunc("GET /gmail/v1/users/me/messages", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("q") == "none" {
			answer(w, 200, object{"resultSizeEstimate": 0})
			return
		}
		answer(w, 200, object{"messages": []object{{"id": "m1", "threadId": "t1"}}, "nextPageToken": "2"})
	})
	mux.HandleFunc("GET /gmail/v1/users/me/messages/{id}", func(w http.ResponseWriter, r *http.Request) {
		m := object{"id": "m1", "threadId": "t1", "labelIds": []string{"INBOX", "UNREAD"}, "snippet": "Please pay", "internalDate": "1795428000000"}
		switch {
		case r.PathValue("id") != "m1":
			refuse(w, 404, "notFound", "Requested entity was not found.")
			return
		case r.URL.Query().Get("format") == "metadata":
			m["payload"] = object{"headers": headers}
		default:
			m["payload"] = object{"mimeType": "multipart/mixed", "headers": headers, "parts": []object{
				{"mimeType": "multipart/alternative", "parts": []object{
					{"mimeType": "text/plain", "body": object{"data": encode("Please pay 5 €.")}},
					{"mimeType": "text/html", "body": object{"data": encode("<p>Please pay")}},
				}},
				{"mimeType": "application/pdf", "filename": "invoice.pdf", "body": object{"attachmentId": "a", "size": 1234}},
			}}
		}
		answer(w, 200, m)
	})
	mux.HandleFunc("GET /calendar/v3/users/me/calendarList", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, object{"items": []object{{"id": "bob@example.com", "summary": "Bob", "timeZone": "Europe/Berlin", "primary": true}}})
	})
	mux.HandleFunc("GET /calendar/v3/calendars/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("orderBy") == "startTime" && q.Get("singleEvents") != "true" || q.Get("timeMin") == "" {
			refuse(w, 400, "badRequest", "Bad Request")
			return
		}
		answer(w, 200, object{"items": []object{{
			"id": "e1", "summary": "Stand-up", "status": "confirmed", "htmlLink": "https://example.com/e1", "location": "Ulm",
			"start": object{"dateTime": "2026-12-01T09:00:00+01:00"}, "end": object{"dateTime": "2026-12-01T09:15:00+01:00"},
			"attendees": []object{{"email": "ann@example.com", "responseStatus": "accepted"}},
		}}})
	})
	mux.HandleFunc("GET /v1/documents/{id}", func(w http.ResponseWriter, _ *http.Request) {
		text := func(style, content string) object {
			return object{"paragraph": object{"paragraphStyle": object{"namedStyleType": style}, "elements": []object{{"textRun": object{"content": content}}}}}
		}
		bullet := text("NORMAL_TEXT", "a point\n")
		bullet["paragraph"].(object)["bullet"] = object{"listId": "l"}
		answer(w, 200, object{"documentId": "d1", "title": "Plan", "body": object{"content": []object{
			text("HEADING_2", "Goals\n"), text("NORMAL_TEXT", "Be done.\n"), bullet,
			{"table": object{"tableRows": []object{{"tableCells": []object{{"content": []object{text("", "a\n")}}, {"content": []object{text("", "b\n")}}}}}}},
		}}})
	})
	mux.HandleFunc("GET /drive/v3/files", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query().Get("q"); strings.Count(q, "'")%2 != strings.Count(q, `\'`)%2 || strings.Contains(q, "fullText") && r.URL.Query().Has("orderBy") {
			refuse(w, 400, "invalid", "Invalid Value")
			return
		}
		answer(w, 200, object{"files": []object{{"id": "f1", "name": "Budget", "mimeType": "application/vnd.google-apps.spreadsheet", "modifiedTime": "2026-11-01T00:00:00Z"}}})
	})
	mux.HandleFunc("GET /drive/v3/files/{id}", func(w http.ResponseWriter, r *http.Request) {
		kinds := map[string]string{"f1": "application/vnd.google-apps.spreadsheet", "f2": "text/plain", "f3": "application/vnd.google-apps.folder", "f4": "image/png"}
		kind := kinds[r.PathValue("id")]
		switch {
		case kind == "":
			refuse(w, 404, "notFound", "File not found: .")
		case r.URL.Query().Get("alt") != "media":
			answer(w, 200, object{"id": r.PathValue("id"), "name": "Budget", "mimeType": kind})
		case strings.HasPrefix(kind, "application/vnd.google-apps"):
			refuse(w, 403, "fileNotDownloadable", "Only files with binary content can be downloaded.")
		default:
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, "text of a file")
		}
	})
	mux.HandleFunc("GET /drive/v3/files/{id}/export", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("mimeType"))
		fmt.Fprint(w, "a,b\n1,2\n")
	})
	task := object{"id": "k1", "title": "Buy milk", "notes": "2 l", "status": "needsAction", "due": "2026-12-01T00:00:00.000Z"}
	mux.HandleFunc("GET /tasks/v1/users/@me/lists", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, object{"items": []object{{"id": "l1", "title": "Home"}}})
	})
	mux.HandleFunc("GET /tasks/v1/lists/{list}/tasks", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, object{"items": []object{task}}) })
	mux.HandleFunc("GET /tasks/v1/lists/{list}/tasks/{id}", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, task) })

	var challenge string
	mux.HandleFunc("GET /o/oauth2/v2/auth", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("client_id") != "id" || q.Get("access_type") != "offline" || q.Get("code_challenge_method") != "S256" || q.Get("scope") == "" || q.Has("resource") {
			http.Error(w, "invalid_request", http.StatusBadRequest)
			return
		}
		challenge = q.Get("code_challenge")
		back := url.Values{"code": {"code"}, "state": {q.Get("state")}, "scope": {q.Get("scope")}}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		id, secret, ok := r.BasicAuth()
		if !ok {
			id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
		}
		switch {
		case id != "id" || secret != "hush-hush":
			answer(w, 401, object{"error": "invalid_client"})
		case r.FormValue("grant_type") == "authorization_code" && r.FormValue("code") == "code" && r.FormValue("code_verifier") != "" && challenge != "":
			// It expires at once, so that the first call renews it.
			answer(w, 200, object{"access_token": "first", "expires_in": 1, "refresh_token": "again", "token_type": "Bearer", "scope": r.FormValue("scope")})
		case r.FormValue("grant_type") == "refresh_token" && r.FormValue("refresh_token") == "again":
			answer(w, 200, object{"access_token": "good", "expires_in": 3599, "token_type": "Bearer"})
		default:
			answer(w, 400, object{"error": "invalid_grant"})
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isLogin := strings.HasPrefix(r.URL.Path, "/o/") || r.URL.Path == "/token"
		switch r.Header.Get("Authorization") {
		case "Bearer unlisted":
			refuse(w, 403, "accessNotConfigured", "Gmail API has not been used in project 1 before or it is disabled.")
		case "Bearer narrow":
			refuse(w, 403, "insufficientPermissions", "Request had insufficient authentication scopes.")
		case "Bearer good":
			mux.ServeHTTP(w, r)
		default:
			if isLogin {
				mux.ServeHTTP(w, r)
				return
			}
			refuse(w, 401, "authError", "Invalid Credentials")
		}
	})
}

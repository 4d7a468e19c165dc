package message

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
)

func (c *Channel) method() string {
	switch c.Provider {
	case "matrix":
		return "put"
	case "smtp":
		return "connect"
	}
	return "post"
}

// telegramLimit is the maximum number of characters of one Telegram message.
const telegramLimit = 4096

// post sends a message over HTTP and returns its id.
func (c *Channel) post(ctx context.Context, name, key string, l outgoing) (string, error) {
	path, body, bearer := "", map[string]any{"text": l.textWithSubject()}, key
	switch c.Provider {
	case "webhook": // the address is whole
		body = map[string]any{"text": l.text}
		if l.subject != "" {
			body["subject"] = l.subject
		}
		if l.to != "" {
			body["recipient"] = l.to
		}
	case "slack":
		path, body["channel"] = "/chat.postMessage", l.to
	case "telegram":
		if n := len([]rune(l.textWithSubject())); n > telegramLimit {
			return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the message has %d characters; Telegram takes at most %d", n, telegramLimit).WithHint("send it in parts")
		}
		path, body["chat_id"], bearer = "/bot"+url.PathEscape(key)+"/sendMessage", l.to, ""
	case "matrix":
		// The id makes a repeated request of the same call the same message.
		path = "/_matrix/client/v3/rooms/" + url.PathEscape(l.to) + "/send/m.room.message/" + url.PathEscape(l.id)
		body = map[string]any{"msgtype": "m.text", "body": l.textWithSubject()}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	response, answer, err := c.request(ctx, name, strings.ToUpper(c.method()), c.Address()+path, bearer, "application/json; charset=utf-8", data)
	if err != nil {
		return "", err
	}
	return c.parseAnswer(name, key, response, answer)
}

// maxAnswer is the number of bytes of a response that an error shows.
const maxAnswer = 300

// redactAnswer returns the text of a response without the key and the address, which is often a
// key itself. It removes the address's user, path and query, and the longer parts of them.
func (c *Channel) redactAnswer(text, key string) string {
	const short = 6 // parts up to this length are found in the whole only
	secrets := []string{key, url.PathEscape(key), url.QueryEscape(key), base64.StdEncoding.EncodeToString([]byte("\x00" + c.User + "\x00" + key))}
	if key == "" {
		secrets = nil
	}
	if u, err := url.Parse(c.Address()); err == nil {
		whole := []string{u.EscapedPath(), u.Path, u.RawQuery}
		if password, ok := u.User.Password(); ok {
			whole = append(whole, password, u.User.String())
		}
		var parts []string
		for _, s := range whole {
			parts = append(parts, strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("/?&=", r) })...)
		}
		for _, values := range u.Query() {
			parts = append(parts, values...)
		}
		secrets = append(secrets, slices.DeleteFunc(whole, func(s string) bool { return len(s) < 2 })...)
		secrets = append(secrets, slices.DeleteFunc(parts, func(s string) bool { return len(s) <= short })...)
	}
	// Longer ones first: a shorter one within would leave the rest.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "…")
		text = strings.ReplaceAll(text, strings.ReplaceAll(s, "/", `\/`), "…") // as some write JSON
	}
	return text
}

// answer has the members of all providers' responses.
type answer struct {
	OK          *bool  `json:"ok"`
	Error       string `json:"error"`       // Slack, Matrix
	Description string `json:"description"` // Telegram
	TS          string `json:"ts"`          // Slack
	EventID     string `json:"event_id"`    // Matrix
	Result      struct {
		MessageID json.Number `json:"message_id"`
	} `json:"result"` // Telegram
}

// parseAnswer returns the id of the sent message from a response, or the error that the
// response reports.
func (c *Channel) parseAnswer(name, key string, response *http.Response, body []byte) (string, error) {
	var a answer
	parsed := json.Unmarshal(body, &a) == nil
	status := response.StatusCode
	if status < 300 && (c.Provider == "webhook" || parsed && (a.OK == nil || *a.OK)) {
		id := c.redactAnswer(cmp.Or(a.TS, a.EventID, a.Result.MessageID.String()), key)
		if c.Provider != "webhook" && id == "" {
			return "", toolroom.Errorf(toolroom.CodeUpstreamError, "the answer of %s names no message; is %s its address?", c.Provider, c.host()).
				WithHint("check builtin.message.channels.%s.url", name)
		}
		return id, nil
	}
	why := cmp.Or(a.Description, a.Error)
	if !parsed || why == "" {
		why = strings.Join(strings.Fields(string(body)), " ")
	}
	why = c.redactAnswer(why, key)
	why = strings.ToValidUTF8(why[:min(len(why), maxAnswer)], "")
	e := toolroom.Errorf(toolroom.CodeUpstreamError, "%s answered %d %s: %s", c.Provider, status, http.StatusText(status), why)
	e.Details = map[string]any{"status": status}
	switch {
	case status == http.StatusTooManyRequests || why == "ratelimited":
		e.Code, e.Retryable = toolroom.CodeRateLimited, true
		wait := "a while"
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
			wait = strconv.Itoa(seconds) + " s"
		}
		return "", e.WithHint("wait %s", wait)
	case status == http.StatusUnauthorized, why == "invalid_auth", why == "not_authed", why == "token_revoked", why == "account_inactive",
		c.Provider == "telegram" && status == http.StatusNotFound:
		return "", e.WithHint("check the key: builtin.message.channels.%s.key in toolroom.yaml", name)
	case status == http.StatusForbidden, why == "channel_not_found", why == "not_in_channel", status == http.StatusBadRequest:
		return "", e.WithHint("check the recipient, and that the provider's bot or user is a member there")
	case status >= 300 && status < 400:
		return "", e.WithHint("the address redirects; write the final one: builtin.message.channels.%s.url", name)
	case status >= 500:
		e.Code = toolroom.CodeUpstreamUnavailable
	}
	return "", e
}

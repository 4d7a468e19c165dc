package message

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// Channels are the configured channels, by name.
type Channels map[string]*Channel

// Attachment is a file that is sent with a message.
type Attachment struct {
	Name, Kind string
	Data       []byte
}

// attachmentTime limits the time to send a file.
const attachmentTime = 2 * time.Minute

// Target returns the predicted effects of sending by a channel, and the recipient.
func (m Channels) Target(channel, recipient string) ([]toolroom.Effect, string, error) {
	name, c, err := messages(m).find(channel)
	if err != nil {
		return nil, "", err
	}
	to, err := c.recipient(name, recipient)
	return []toolroom.Effect{{Kind: toolroom.EffectHost, Mode: c.method(), Target: c.Address()}, {Kind: toolroom.EffectSend}}, cmp.Or(to, c.host()), err
}

// SendFile sends a file by a channel, with a text about it.
func (m Channels) SendFile(ctx context.Context, req *source.Request, channel, recipient, text string, file Attachment) (Sent, error) {
	name, c, err := messages(m).find(channel)
	if err != nil {
		return Sent{}, err
	}
	to, err := c.recipient(name, recipient)
	if err != nil {
		return Sent{}, err
	}
	key, err := c.key(ctx, name)
	if err != nil {
		return Sent{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, attachmentTime, errSlow)
	defer cancel()
	l := outgoing{to: to, text: text, id: req.Call, file: &file}
	out := Sent{Channel: name, Provider: c.Provider, Recipient: to}
	switch c.Provider {
	case "smtp":
		l.subject = cmp.Or(firstLine(text), file.Name)
		out.ID, err = c.mail(ctx, key, l)
	case "slack":
		out.ID, err = c.slackFile(ctx, name, key, l)
	case "matrix":
		out.ID, err = c.matrixFile(ctx, name, key, l)
	default:
		out.ID, err = c.formFile(ctx, name, key, l)
	}
	if err != nil {
		return Sent{}, c.failure(ctx, key, err)
	}
	return out, nil
}

// majorType returns the first part of the media type, such as image, audio or video.
func (a Attachment) majorType() string {
	major, _, _ := strings.Cut(a.Kind, "/")
	return major
}

// formFile sends a file as a form, to Telegram or a webhook.
func (c *Channel) formFile(ctx context.Context, name, key string, l outgoing) (string, error) {
	path, field, values, bearer := "", "file", map[string]string{"text": l.text, "recipient": l.to}, key
	if c.Provider == "telegram" {
		method := "sendDocument"
		field = "document"
		switch l.file.Kind {
		case "image/jpeg", "image/png":
			method, field = "sendPhoto", "photo"
		case "audio/mpeg", "audio/mp4":
			method, field = "sendAudio", "audio"
		case "audio/ogg":
			method, field = "sendVoice", "voice"
		}
		path, values, bearer = "/bot"+url.PathEscape(key)+"/"+method, map[string]string{"chat_id": l.to, "caption": l.text}, ""
	}
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, name := range []string{"chat_id", "caption", "text", "recipient"} {
		if values[name] != "" {
			_ = form.WriteField(name, values[name]) // writes to a buffer cannot fail
		}
	}
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {mime.FormatMediaType("form-data", map[string]string{"name": field, "filename": l.file.Name})},
		"Content-Type":        {l.file.Kind},
	})
	if err != nil {
		return "", err
	}
	_, _ = part.Write(l.file.Data)
	_ = form.Close()
	response, answer, err := c.request(ctx, name, http.MethodPost, c.Address()+path, bearer, form.FormDataContentType(), b.Bytes())
	if err != nil {
		return "", err
	}
	return c.parseAnswer(name, key, response, answer)
}

// request sends a request to a provider. It follows no redirect, because that would send the
// message, and Telegram's key, to another host.
func (c *Channel) request(ctx context.Context, name, method, address, bearer, kind string, body []byte) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, nil, toolroom.Errorf(toolroom.CodeUnsupported, "the address of the channel %s cannot be used", name).WithHint("check builtin.message.channels.%s.url", name)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", "application/json")
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	client := &http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response, answer, err
}

// slackFile sends a file with the three requests that Slack requires.
func (c *Channel) slackFile(ctx context.Context, name, key string, l outgoing) (string, error) {
	if strings.HasPrefix(l.to, "#") || strings.HasPrefix(l.to, "@") {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "Slack takes files for the id of a channel only, not for %.100q", l.to).
			WithHint("write the channel's id, such as C0123456789, into builtin.message.channels.%s.recipients", name)
	}
	query := url.Values{"filename": {l.file.Name}, "length": {strconv.Itoa(len(l.file.Data))}}
	response, text, err := c.request(ctx, name, http.MethodPost, c.Address()+"/files.getUploadURLExternal", key, "application/x-www-form-urlencoded", []byte(query.Encode()))
	if err != nil {
		return "", err
	}
	var place struct {
		OK        bool   `json:"ok"`
		UploadURL string `json:"upload_url"`
		FileID    string `json:"file_id"`
	}
	if json.Unmarshal(text, &place) != nil || !place.OK || place.UploadURL == "" {
		return c.parseAnswer(name, key, response, text)
	}
	if response, _, err = c.request(ctx, name, http.MethodPost, place.UploadURL, "", l.file.Kind, l.file.Data); err != nil {
		return "", err
	}
	if response.StatusCode >= 300 {
		return "", toolroom.Errorf(toolroom.CodeUpstreamError, "slack did not take the file: %s", response.Status)
	}
	done, err := json.Marshal(map[string]any{"files": []any{map[string]any{"id": place.FileID, "title": l.file.Name}}, "channel_id": l.to, "initial_comment": l.text})
	if err != nil {
		return "", err
	}
	if response, text, err = c.request(ctx, name, http.MethodPost, c.Address()+"/files.completeUploadExternal", key, "application/json; charset=utf-8", done); err != nil {
		return "", err
	}
	var ok struct {
		OK bool `json:"ok"`
	}
	if json.Unmarshal(text, &ok) != nil || !ok.OK {
		return c.parseAnswer(name, key, response, text)
	}
	return place.FileID, nil
}

// matrixFile uploads a file and sends a message about it.
func (c *Channel) matrixFile(ctx context.Context, name, key string, l outgoing) (string, error) {
	address := c.Address() + "/_matrix/media/v3/upload?" + url.Values{"filename": {l.file.Name}}.Encode()
	response, text, err := c.request(ctx, name, http.MethodPost, address, key, l.file.Kind, l.file.Data)
	if err != nil {
		return "", err
	}
	var uploaded struct {
		URI string `json:"content_uri"`
	}
	if json.Unmarshal(text, &uploaded) != nil || uploaded.URI == "" {
		return c.parseAnswer(name, key, response, text)
	}
	kind := "m.file"
	switch major := l.file.majorType(); major {
	case "image", "audio", "video":
		kind = "m." + major
	}
	body, err := json.Marshal(map[string]any{
		"msgtype": kind, "body": cmp.Or(l.text, l.file.Name), "filename": l.file.Name, "url": uploaded.URI,
		"info": map[string]any{"mimetype": l.file.Kind, "size": len(l.file.Data)},
	})
	if err != nil {
		return "", err
	}
	address = c.Address() + "/_matrix/client/v3/rooms/" + url.PathEscape(l.to) + "/send/m.room.message/" + url.PathEscape(l.id)
	if response, text, err = c.request(ctx, name, http.MethodPut, address, key, "application/json", body); err != nil {
		return "", err
	}
	return c.parseAnswer(name, key, response, text)
}

// writeAttachment writes the body of a mail that has a file: the text, and the file in base64.
func writeAttachment(b *bytes.Buffer, boundary string, l outgoing) {
	fmt.Fprintf(b, "--%s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n", boundary)
	writeBase64Lines(b, []byte(l.text))
	fmt.Fprintf(b, "--%s\r\nContent-Type: %s\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: %s\r\n\r\n",
		boundary, l.file.Kind, mime.FormatMediaType("attachment", map[string]string{"filename": l.file.Name}))
	writeBase64Lines(b, l.file.Data)
	fmt.Fprintf(b, "--%s--\r\n", boundary)
}

// writeBase64Lines writes data in base64, in lines as short as mail requires.
func writeBase64Lines(b *bytes.Buffer, data []byte) {
	const length = 57 // bytes of a line of 76 characters
	for len(data) > 0 {
		n := min(len(data), length)
		b.WriteString(base64.StdEncoding.EncodeToString(data[:n]) + "\r\n")
		data = data[n:]
	}
}

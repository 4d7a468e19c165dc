// Package message provides the built-in tool that sends messages to people and chats through
// the providers in the config.
package message

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/source"
)

// Channel sends messages through one provider.
type Channel struct {
	// Provider is webhook, slack, telegram, matrix or smtp.
	Provider string
	// URL is the address of the provider; empty means the provider's own.
	URL string
	// Key returns the key of the provider, or the password for mail; nil means that the
	// config names none.
	Key func(context.Context) (string, error)
	// User is the name for the login at the mail server; if it is empty, there is no login.
	// From is the sender of mail.
	User, From string
	// Recipients are the permitted recipients; the first is the default. "*" permits any.
	Recipients []string
	// Transport sends requests, and Dial connects to mail servers.
	Transport http.RoundTripper
	Dial      func(ctx context.Context, address string) (net.Conn, error)
	// Roots are the authorities for mail servers; nil are those of this machine.
	Roots *x509.CertPool
}

// addresses are the default addresses of the providers.
var addresses = map[string]string{"slack": "https://slack.com/api", "telegram": "https://api.telegram.org"}

// Address returns the address of the provider.
func (c *Channel) Address() string {
	return strings.TrimSuffix(cmp.Or(c.URL, addresses[c.Provider]), "/")
}

// Pack returns the tool, for the channels of a config by name.
func Pack(channels map[string]*Channel) *builtin.Pack {
	m := messages(channels)
	p := &builtin.Pack{Name: "message", Tools: []builtin.Tool{m.send()}, Check: m.check}
	if len(m) == 0 {
		p.Missing = toolroom.Errorf(toolroom.CodeUnsupported, "no channel for messages is configured").
			WithHint(`name one in toolroom.yaml: builtin: {message: {channels: {team: {provider: slack, key: "secret://slack/token", recipients: ["#general"]}}}}; other providers are webhook, telegram, matrix and smtp`)
	}
	return p
}

type messages map[string]*Channel

// check returns an error if a channel cannot work as configured.
func (m messages) check(ctx context.Context) *toolroom.Error {
	for _, name := range m.names() {
		if _, err := m[name].key(ctx, name); err != nil {
			return toolroom.AsError(err)
		}
	}
	return nil
}

func (m messages) names() []string { return slices.Sorted(maps.Keys(m)) }

// key returns the key of a channel. It is empty if none is needed.
func (c *Channel) key(ctx context.Context, name string) (string, error) {
	if c.Key == nil {
		if c.Provider == "webhook" || c.Provider == "smtp" && c.User == "" {
			return "", nil
		}
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "the channel %s has no key for %s", name, c.Provider).
			WithHint(`store it as a secret, and name it in toolroom.yaml: builtin: {message: {channels: {%s: {key: "secret://%s/key"}}}}`, name, c.Provider).
			WithCLIHint("toolroom secret set %s/key", c.Provider)
	}
	key, err := c.Key(ctx)
	if err == nil && key == "" {
		err = toolroom.Errorf(toolroom.CodeUnsupported, "the key of the channel %s is empty", name).WithHint("check builtin.message.channels.%s.key in toolroom.yaml", name)
	}
	return key, err
}

// Args are the arguments of message:send.
type Args struct {
	Text      string `json:"text" jsonschema:"the message"`
	Channel   string `json:"channel,omitempty" jsonschema:"configured channel to use; the default is the only one"`
	Recipient string `json:"recipient,omitempty" jsonschema:"who gets it: a chat, room or address that the channel permits; the default is the channel's first"`
	Subject   string `json:"subject,omitempty" jsonschema:"subject of a mail, or first line of a message"`
}

// Sent is the value of message:send.
type Sent struct {
	Channel   string `json:"channel" jsonschema:"the channel"`
	Provider  string `json:"provider" jsonschema:"its provider"`
	Recipient string `json:"recipient,omitempty" jsonschema:"who got it"`
	ID        string `json:"id,omitempty" jsonschema:"id of the message at the provider"`
}

func (m messages) send() builtin.Tool {
	return builtin.MustTool(builtin.Spec[Args, Sent]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("message:send"), Title: "Send a message",
			Description: "Send a message to a person or a chat: notify someone, post to Slack, Telegram or Matrix, email, call a webhook. Channels and recipients are those of the config.",
			Hints:       builtin.Hints(false, false, true), Guarantee: toolroom.GuaranteeNever, Tags: []string{"message"},
			Examples: []toolroom.Example{{Arguments: builtin.Arguments(map[string]any{"text": "The build is green."})}},
		},
		Arguments: map[string]builtin.Property{
			"text": {"minLength": 1, "maxLength": 100_000}, "channel": {"maxLength": 100}, "recipient": {"maxLength": 320}, "subject": {"maxLength": 500},
		},
		Predict: func(_ *source.Request, in Args) []toolroom.Effect {
			_, c, err := m.find(in.Channel)
			if err != nil {
				return []toolroom.Effect{{Kind: toolroom.EffectSend}}
			}
			return []toolroom.Effect{{Kind: toolroom.EffectHost, Mode: c.method(), Target: c.Address()}, {Kind: toolroom.EffectSend}}
		},
		Preview: func(_ context.Context, _ *source.Request, in Args) (source.Preview, error) {
			name, c, err := m.find(in.Channel)
			if err != nil {
				return source.Preview{}, err
			}
			to, err := c.recipient(name, in.Recipient)
			return source.Preview{Effects: []string{strings.TrimSpace(fmt.Sprintf("sends %d characters by %s (%s) to %s", len([]rune(in.Text)), name, c.Provider, cmp.Or(to, c.host())))}}, err
		},
		Run: m.run,
	})
}

func (m messages) run(ctx context.Context, req *source.Request, in Args) (Sent, []toolroom.Content, error) {
	name, c, err := m.find(in.Channel)
	if err != nil {
		return Sent{}, nil, err
	}
	to, err := c.recipient(name, in.Recipient)
	if err != nil {
		return Sent{}, nil, err
	}
	key, err := c.key(ctx, name)
	if err != nil {
		return Sent{}, nil, err
	}
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	letter := outgoing{to: to, subject: in.Subject, text: in.Text, id: req.Call}
	out := Sent{Channel: name, Provider: c.Provider, Recipient: to}
	if c.Provider == "smtp" {
		out.ID, err = c.mail(ctx, key, letter)
	} else {
		out.ID, err = c.post(ctx, name, key, letter)
	}
	if err != nil {
		return Sent{}, nil, c.failure(ctx, key, err)
	}
	return out, builtin.Text(strings.TrimSpace(fmt.Sprintf("Sent by %s to %s.", name, cmp.Or(to, c.host())))), nil
}

// outgoing is a message to send, for any provider.
type outgoing struct {
	to, subject, text, id string
	file                  *Attachment
}

// textWithSubject returns the text, with the subject as its first line if there is one.
func (l outgoing) textWithSubject() string {
	if l.subject == "" {
		return l.text
	}
	return l.subject + "\n\n" + l.text
}

func (m messages) find(name string) (string, *Channel, error) {
	names := m.names()
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	if c, ok := m[name]; ok {
		return name, c, nil
	}
	if name == "" {
		return "", nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "there are several channels; name one").WithHint("channel is one of %s", strings.Join(names, ", "))
	}
	return "", nil, toolroom.Errorf(toolroom.CodeNotFound, "there is no channel %.80q", name).WithHint("channel is one of %s; more can be named in toolroom.yaml: builtin.message.channels", strings.Join(names, ", "))
}

// recipient returns the recipient of a message, or an error if the channel does not permit it.
func (c *Channel) recipient(name, asked string) (string, error) {
	if asked == "" {
		if len(c.Recipients) > 0 && c.Recipients[0] != "*" {
			return c.Recipients[0], nil
		}
		if c.Provider == "webhook" {
			return "", nil
		}
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the channel %s needs a recipient", name).
			WithHint("pass recipient, or name a default in toolroom.yaml: builtin.message.channels.%s.recipients", name)
	}
	if asked != "*" && (slices.Contains(c.Recipients, asked) || slices.Contains(c.Recipients, "*")) {
		return asked, nil
	}
	return "", toolroom.Errorf(toolroom.CodeDenied, "the channel %s may not send to %.100q", name, asked).
		WithHint("recipients are those in toolroom.yaml: builtin.message.channels.%s.recipients", name)
}

func (c *Channel) host() string {
	u, err := url.Parse(c.Address())
	if err != nil {
		return ""
	}
	return u.Host
}

var errSlow = errors.New("the provider did not answer in time")

// failure returns the error for a message that was not sent. It names only the host, because
// addresses may contain keys.
func (c *Channel) failure(ctx context.Context, key string, err error) error {
	var known *toolroom.Error
	var wrapped *url.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(context.Cause(ctx), errSlow):
		return toolroom.Errorf(toolroom.CodeTimeout, "%s did not answer within 30 s; whether the message was sent is unknown", c.host())
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &wrapped):
		err = wrapped.Err
	}
	if text := c.redactAnswer(err.Error(), key); text != err.Error() { // it quotes an answer
		err = errors.New(text)
	}
	return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "%s: %w", c.host(), err)
}

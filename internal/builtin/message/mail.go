package message

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/toolroom/toolroom"
)

// mail sends a message by SMTP and returns its Message-ID. Passwords go over TLS only,
// except to this machine.
func (c *Channel) mail(ctx context.Context, password string, l outgoing) (string, error) {
	from, err := mail.ParseAddress(c.From)
	if err != nil {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "the sender of mail is not an address: %w", err).WithHint("write from: ann@example.com in the channel")
	}
	if isQuoted(from) {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "the sender of mail has a quoted name before the @, which mail servers read differently").WithHint("write from: ann@example.com in the channel")
	}
	to, err := mail.ParseAddress(l.to)
	if err != nil {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the recipient %.100q is not an address: %w", l.to, err).WithHint("write it as ann@example.com")
	}
	if isQuoted(to) {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the recipient %.100q has a character before the @ that may not be there: a space, quote, comma, bracket or the like", l.to).WithHint("write it as ann@example.com")
	}
	u, err := url.Parse(c.Address())
	if err != nil {
		return "", err
	}
	raw, err := c.Dial(ctx, MailHost(u))
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })()
	conn := raw
	if u.Scheme == "smtps" {
		conn = tls.Client(raw, c.tls(u))
	}
	client, err := smtp.NewClient(conn, u.Hostname())
	if err != nil {
		return "", errors.Join(err, raw.Close())
	}
	defer client.Close()
	if err := c.logIn(client, u, password); err != nil {
		return "", c.responseError(err, password)
	}
	id := fmt.Sprintf("<%s@%s>", strings.ToLower(rand.Text()), from.Address[strings.LastIndexByte(from.Address, '@')+1:])
	if err := deliver(client, from, to, l, id); err != nil {
		return "", c.responseError(err, password)
	}
	// The message is accepted; how the server says goodbye does not matter.
	_ = client.Quit()
	return id, nil
}

// isQuoted reports whether the part of an address before the @ has characters that need quotes.
// In an SMTP command such characters could end the address, or name a route or another address.
func isQuoted(a *mail.Address) bool {
	local := a.Address[:strings.LastIndexByte(a.Address, '@')]
	return strings.ContainsFunc(local, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`()<>[]:;@\,"`, r)
	})
}

func (c *Channel) tls(u *url.URL) *tls.Config {
	return &tls.Config{ServerName: u.Hostname(), RootCAs: c.Roots}
}

// MailHost returns the host and port of a mail server.
func MailHost(u *url.URL) string {
	port := map[string]string{"smtp": "587", "smtps": "465"}[u.Scheme]
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}

// logIn starts TLS if the server offers it, and logs in if the channel has a user.
func (c *Channel) logIn(client *smtp.Client, u *url.URL, password string) error {
	if err := client.Hello("localhost"); err != nil {
		return err
	}
	_, private := client.TLSConnectionState()
	if offered, _ := client.Extension("STARTTLS"); !private && offered {
		if err := client.StartTLS(c.tls(u)); err != nil {
			return err
		}
		private = true
	}
	if c.User == "" {
		return nil
	}
	if !private && !isThisMachine(u.Hostname()) {
		return toolroom.Errorf(toolroom.CodeUnsupported, "%s offers no TLS, so the password is not sent to it", u.Host).WithHint("use smtps://, or a server that offers STARTTLS")
	}
	return client.Auth(smtp.PlainAuth("", c.User, password, u.Hostname()))
}

func isThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func deliver(client *smtp.Client, from, to *mail.Address, l outgoing, id string) error {
	if err := client.Mail(from.Address); err != nil {
		return err
	}
	if err := client.Rcpt(to.Address); err != nil {
		return err
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(compose(from, to, l, id, time.Now())); err != nil {
		return err
	}
	return w.Close()
}

// compose returns the mail. No value can add a header, because the subject is encoded and the
// addresses were parsed.
func compose(from, to *mail.Address, l outgoing, id string, now time.Time) []byte {
	var b bytes.Buffer
	subject := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, cmp.Or(l.subject, firstLine(l.text)))
	kind, encoding, boundary := "text/plain; charset=utf-8", "quoted-printable", ""
	if l.file != nil {
		boundary = rand.Text()
		kind, encoding = "multipart/mixed; boundary="+boundary, "7bit"
	}
	for _, header := range [][2]string{
		{"From", from.String()},
		{"To", to.String()},
		{"Subject", mime.QEncoding.Encode("utf-8", subject)},
		{"Date", now.Format(time.RFC1123Z)},
		{"Message-ID", id},
		{"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
		{"Content-Type", kind},
		{"Content-Transfer-Encoding", encoding},
	} {
		fmt.Fprintf(&b, "%s: %s\r\n", header[0], header[1])
	}
	b.WriteString("\r\n")
	if l.file != nil {
		writeAttachment(&b, boundary, l)
		return b.Bytes()
	}
	w := quotedprintable.NewWriter(&b)
	// Writes to a buffer cannot fail.
	_, _ = w.Write([]byte(l.text))
	_ = w.Close()
	return b.Bytes()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > 70 {
		return string(runes[:70]) + "…"
	}
	return line
}

// responseError returns the error for a response of the mail server.
func (c *Channel) responseError(err error, password string) error {
	var answer *textproto.Error
	if !errors.As(err, &answer) {
		return err
	}
	e := toolroom.Errorf(toolroom.CodeUpstreamError, "the mail server answered %d %s", answer.Code, c.redactAnswer(answer.Msg, password))
	switch {
	case answer.Code == 535 || answer.Code == 530:
		return e.WithHint("check user and key of the channel: builtin.message.channels in toolroom.yaml")
	case answer.Code >= 400 && answer.Code < 500:
		e.Code, e.Retryable = toolroom.CodeUpstreamUnavailable, true
	}
	return e
}

package approval

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// KeyBytes is the length of [Options.Key].
const KeyBytes = 32

// linkClaims is the signed content of a link. Only a holder of the service's key can sign it.
type linkClaims struct {
	Approval string    `json:"a"`
	Expires  time.Time `json:"e"`
	// Hook is the webhook that received the link.
	Hook string `json:"h,omitempty"`
}

// Link returns a token that lets its bearer answer a as a webhook's approver.
func (s *Service) Link(a *toolroom.Approval, hook string) string {
	return s.seal(linkClaims{Approval: a.ID, Expires: a.Expires, Hook: hook})
}

// OpenLink returns the approval of a token made by Link, and the name of the
// webhook. The token answers once, see [Decide].
func (s *Service) OpenLink(ctx context.Context, token string) (a *toolroom.Approval, hook string, err error) {
	c, err := s.open(token)
	if err != nil {
		return nil, "", err
	}
	a, err = s.Get(ctx, c.Approval)
	return a, c.Hook, err
}

func (s *Service) seal(c linkClaims) string {
	c.Expires = c.Expires.UTC()
	// Encoding strings and a time cannot fail.
	body, _ := json.Marshal(c)
	return encode(body) + "." + encode(s.mac(body))
}

func (s *Service) open(token string) (linkClaims, error) {
	var c linkClaims
	text, sum, _ := strings.Cut(token, ".")
	body, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return c, badToken("cannot be read")
	}
	mac, err := base64.RawURLEncoding.DecodeString(sum)
	if err != nil || !hmac.Equal(mac, s.mac(body)) {
		return c, badToken("was not issued by this server, or was altered")
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, badToken("cannot be read")
	}
	if !s.opts.Now().Before(c.Expires) {
		return c, &toolroom.Error{
			Code: toolroom.CodeApprovalExpired, Phase: toolroom.PhaseApproval,
			Message: "the question expired at " + c.Expires.Format(time.RFC3339), Hint: "repeat the call to ask again",
		}
	}
	return c, nil
}

func (s *Service) mac(body []byte) []byte {
	// The key has several uses; the prefix keeps them apart.
	h := hmac.New(sha256.New, s.opts.Key)
	h.Write([]byte("toolroom link 1\n"))
	h.Write(body)
	return h.Sum(nil)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func badToken(what string) error {
	return &toolroom.Error{
		Code: toolroom.CodeDenied, Phase: toolroom.PhaseApproval,
		Message: "the link " + what,
		Hint:    "open the link in the message, or answer with: toolroom approve",
	}
}

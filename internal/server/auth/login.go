package auth

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/token"
)

// Paths of the login. They need no token.
const (
	LoginPath         = "/login"
	LogoutPath        = "/logout"
	LoginBeginPath    = "/login/oidc"
	LoginCallbackPath = "/login/callback"
)

// SessionTime is how long a person stays signed in.
const SessionTime = 8 * time.Hour

// LoginOptions configure a Login.
type LoginOptions struct {
	// Key seals cookies. It has 32 bytes, and all servers of a home share it.
	Key []byte
	// Verify returns the identity of a token's bearer.
	Verify func(ctx context.Context, bearer string) (toolroom.Identity, error)
	// Sessions records which sessions have ended.
	Sessions Sessions
	// OIDC, if not nil, is a provider at which people can sign in.
	OIDC *OIDC
	// Secure reports whether a browser reaches the server only over HTTPS.
	Secure func(*http.Request) bool
	Log    *slog.Logger
}

// Sessions is the part of a [token.Store] that ends sessions.
type Sessions interface {
	EndSession(ctx context.Context, id string, expires time.Time) error
	SessionEnded(ctx context.Context, id string) (bool, error)
}

// Login signs people in. Its methods are safe for concurrent use.
type Login struct {
	o    LoginOptions
	seal cipher.AEAD
}

// NewLogin returns a Login.
func NewLogin(o LoginOptions) (*Login, error) {
	block, err := aes.NewCipher(o.Key)
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Login{o: o, seal: seal}, nil
}

// Paths returns the paths that need no token.
func (l *Login) Paths() []string {
	return []string{LoginPath, LogoutPath, LoginBeginPath, LoginCallbackPath}
}

// Register adds the paths to a mux.
func (l *Login) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+LoginPath, func(w http.ResponseWriter, r *http.Request) { l.writeForm(w, r, http.StatusOK, "") })
	mux.HandleFunc("POST "+LoginPath, l.loginWithToken)
	mux.HandleFunc("POST "+LogoutPath, l.logout)
	if l.o.OIDC != nil {
		mux.HandleFunc("GET "+LoginBeginPath, l.beginOIDC)
		mux.HandleFunc("GET "+LoginCallbackPath, l.callback)
	}
}

// session is the content of the cookie of a person. Either Token or Who is set.
type session struct {
	ID string `json:"id"`
	// Token is verified with each request, so that a revoked token ends the session.
	Token   string             `json:"token,omitempty"`
	Who     *toolroom.Identity `json:"who,omitempty"`
	Expires time.Time          `json:"expires"`
}

const (
	sessionCookie = "toolroom_session"
	// maxCookie is the size of a cookie that all browsers store (RFC 6265, 6.1), less the name
	// and the attributes.
	maxCookie = 3800
	// maxForm limits the login form, in bytes, because anyone may send one.
	maxForm = 16 << 10
)

// Identity returns the person that a request's cookie identifies. It is only for the page,
// the API that the page uses, and the description of the API, which the page links to.
func (l *Login) Identity(r *http.Request) (toolroom.Identity, bool) {
	if !(r.URL.Path == "/" || r.URL.Path == "/docs" || strings.HasPrefix(r.URL.Path, "/api/")) {
		return toolroom.Identity{}, false
	}
	s, ok := l.session(r)
	if !ok {
		return toolroom.Identity{}, false
	}
	if s.Who != nil {
		return *s.Who, s.Who.Subject != ""
	}
	who, err := l.o.Verify(r.Context(), s.Token)
	return who, err == nil && who.Subject != ""
}

// session returns the session of a browser, or false if there is none or it has ended.
func (l *Login) session(r *http.Request) (s session, ok bool) {
	if !l.openCookie(r, sessionCookie, &s) || s.ID == "" {
		return s, false
	}
	ended, err := l.o.Sessions.SessionEnded(r.Context(), s.ID)
	if err != nil {
		l.o.Log.Error("cannot read whether a session of the page has ended", "error", err)
	}
	if err != nil || ended {
		return s, false
	}
	if time.Now().After(s.Expires) {
		_ = l.endSession(r, s) // so that it stays ended if the clock is set back
		return s, false
	}
	return s, true
}

// endSession ends a session, so that its cookie is no longer valid.
func (l *Login) endSession(r *http.Request, s session) error {
	err := l.o.Sessions.EndSession(r.Context(), s.ID, s.Expires)
	if err != nil {
		l.o.Log.Error("cannot end a session of the page", "error", err)
	}
	return err
}

func (l *Login) loginWithToken(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		l.writeForm(w, r, http.StatusBadRequest, "The form could not be read: "+err.Error())
		return
	}
	bearer := strings.TrimSpace(r.PostForm.Get("token"))
	who, err := l.o.Verify(r.Context(), bearer)
	switch {
	case errors.Is(err, token.ErrExpired):
		l.writeForm(w, r, http.StatusUnauthorized, "This token has expired.")
	case toolroom.CodeOf(err) == toolroom.CodeUnauthenticated || err == nil && who.Subject == "":
		l.writeForm(w, r, http.StatusUnauthorized, "This token is not valid. It may have been revoked, or be that of another server.")
	case err != nil:
		l.writeForm(w, r, http.StatusBadGateway, "The token could not be checked: "+err.Error())
	default:
		l.startSession(w, r, session{Token: bearer})
	}
}

// startSession sets the cookie of a new session and redirects to the page.
func (l *Login) startSession(w http.ResponseWriter, r *http.Request, s session) {
	s.ID, s.Expires = rand.Text(), time.Now().Add(SessionTime)
	if err := l.setCookie(w, r, sessionCookie, s, SessionTime); err != nil {
		l.writeForm(w, r, http.StatusBadRequest, err.Error())
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (l *Login) logout(w http.ResponseWriter, r *http.Request) {
	if s, ok := l.session(r); ok && l.endSession(r, s) != nil {
		l.writeForm(w, r, http.StatusServiceUnavailable, "The session could not be ended: it is still valid. Try again.")
		return
	}
	l.clearCookie(w, r, sessionCookie)
	http.Redirect(w, r, LoginPath, http.StatusSeeOther)
}

// cookieName returns the full name of a cookie. Over HTTPS it has a prefix with which browsers
// accept the cookie from this host only, so that another host of the domain cannot sign a person
// in as somebody else.
func (l *Login) cookieName(r *http.Request, name string) string {
	if l.o.Secure(r) {
		return "__Host-" + name
	}
	return name
}

// setCookie seals content into a cookie.
func (l *Login) setCookie(w http.ResponseWriter, r *http.Request, name string, content any, age time.Duration) error {
	plain, err := json.Marshal(content)
	if err != nil {
		return err
	}
	name = l.cookieName(r, name)
	value := base64.RawURLEncoding.EncodeToString(l.seal.Seal(nil, nil, plain, []byte(name)))
	if len(value) > maxCookie {
		return errors.New("the token or the list of groups is too long for a cookie; use a token of Toolroom")
	}
	http.SetCookie(w, l.newCookie(r, name, value, int(age.Seconds())))
	return nil
}

func (l *Login) clearCookie(w http.ResponseWriter, r *http.Request, name string) {
	http.SetCookie(w, l.newCookie(r, l.cookieName(r, name), "", -1))
}

func (l *Login) newCookie(r *http.Request, name, value string, age int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: l.o.Secure(r)}
}

// openCookie decodes the content of a sealed cookie into into, and reports whether it is valid.
func (l *Login) openCookie(r *http.Request, name string, into any) bool {
	name = l.cookieName(r, name)
	cookies := r.CookiesNamed(name)
	if len(cookies) != 1 || len(cookies[0].Value) > maxCookie {
		return false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookies[0].Value)
	if err != nil {
		return false
	}
	plain, err := l.seal.Open(nil, nil, sealed, []byte(name))
	return err == nil && json.Unmarshal(plain, into) == nil
}

//go:embed login.html
var formHTML string

var formTemplate = template.Must(template.New("login").Parse(formHTML))

// Form serves the login form, in place of an error.
func (l *Login) Form(w http.ResponseWriter, r *http.Request) {
	l.writeForm(w, r, http.StatusUnauthorized, "")
}

// isThisMachine reports whether the request's host is this machine, so that plain HTTP is safe.
func isThisMachine(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

func (l *Login) writeForm(w http.ResponseWriter, r *http.Request, status int, problem string) {
	var body bytes.Buffer
	err := formTemplate.Execute(&body, map[string]any{
		"Problem": problem, "Plain": !l.o.Secure(r) && !isThisMachine(r), "OIDC": l.o.OIDC, "Path": LoginPath, "Begin": LoginBeginPath,
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // an error means that the client has gone
}

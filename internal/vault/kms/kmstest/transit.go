package kmstest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Transit is a server that implements the part of the HTTP API of Vault and OpenBao that package kms uses, with one
// key. It follows the source of OpenBao: bodies, base64, versions and the messages about ciphertexts are those of the
// engine. It has not been compared with a real server. It stores nothing.
type Transit struct {
	// URL, Key and Token are the settings of an adapter. The mount is "transit".
	URL, Key, Token string

	mu       sync.Mutex
	versions []cipher.AEAD // index 0 is version 1
	// ignoresAAD is set by IgnoreAAD.
	ignoresAAD bool
	fault      http.HandlerFunc
}

// NewTransit starts a server, with TLS if secure is set. It stops when the test ends.
func NewTransit(t testing.TB, secure bool) (*Transit, *httptest.Server) {
	t.Helper()
	s := &Transit{Key: "stagedoor", Token: "hvs." + rand.Text()}
	s.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/transit/encrypt/{key}", s.checked(s.encrypt))
	mux.HandleFunc("POST /v1/transit/decrypt/{key}", s.checked(s.decrypt))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "no handler for route") })
	server := httptest.NewUnstartedServer(mux)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s, server
}

// Rotate adds a version, like POST transit/keys/<key>/rotate.
func (s *Transit) Rotate() {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = append(s.versions, gcm)
}

// IgnoreAAD makes the server behave like versions without associated data, which ignore unknown fields.
func (s *Transit) IgnoreAAD() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ignoresAAD = true
}

// Answer makes fault answer all further requests; nil restores the normal behaviour.
func (s *Transit) Answer(fault http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Hang makes all further requests wait until the client disconnects.
func (s *Transit) Hang() {
	s.Answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
}

// transitBody is the request body of both operations.
type transitBody struct {
	Plaintext      string `json:"plaintext"`
	Ciphertext     string `json:"ciphertext"`
	AssociatedData string `json:"associated_data"`
}

// checked wraps an operation with the checks that come before the engine: token, body and name of the key. Injected
// faults come before all of them.
func (s *Transit) checked(next func(http.ResponseWriter, transitBody, []byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body transitBody
		// The server notices a disconnect only after the body was read.
		badBody := json.NewDecoder(r.Body).Decode(&body) != nil
		s.mu.Lock()
		fault, ignoresAAD := s.fault, s.ignoresAAD
		s.mu.Unlock()
		token := r.Header.Get("X-Vault-Token")
		aad, err := base64.StdEncoding.DecodeString(body.AssociatedData)
		if ignoresAAD {
			aad = nil
		}
		switch {
		case fault != nil:
			fault(w, r)
		case token == "":
			refuse(w, http.StatusBadRequest, "missing client token")
		case subtle.ConstantTimeCompare([]byte(token), []byte(s.Token)) != 1:
			refuse(w, http.StatusForbidden, "permission denied")
		case badBody:
			refuse(w, http.StatusBadRequest, "failed to parse JSON input")
		case r.PathValue("key") != s.Key:
			refuse(w, http.StatusBadRequest, "encryption key not found")
		case err != nil:
			refuse(w, http.StatusBadRequest, "failed to decode associated data")
		default:
			next(w, body, aad)
		}
	}
}

func (s *Transit) encrypt(w http.ResponseWriter, body transitBody, aad []byte) {
	plain, err := base64.StdEncoding.DecodeString(body.Plaintext)
	if err != nil {
		refuse(w, http.StatusBadRequest, "failed to base64-decode plaintext")
		return
	}
	s.mu.Lock()
	version := len(s.versions)
	gcm := s.versions[version-1]
	s.mu.Unlock()
	nonce := make([]byte, gcm.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	sealed := base64.StdEncoding.EncodeToString(gcm.Seal(nonce, nonce, plain, aad))
	reply(w, map[string]any{"ciphertext": "vault:v" + strconv.Itoa(version) + ":" + sealed, "key_version": version})
}

func (s *Transit) decrypt(w http.ResponseWriter, body transitBody, aad []byte) {
	rest, ok := strings.CutPrefix(body.Ciphertext, "vault:v")
	if !ok {
		refuse(w, http.StatusBadRequest, "invalid ciphertext: no prefix")
		return
	}
	number, encoded, ok := strings.Cut(rest, ":")
	if !ok {
		refuse(w, http.StatusBadRequest, "invalid ciphertext: wrong number of fields")
		return
	}
	version, err := strconv.Atoi(number)
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid ciphertext: version number could not be decoded")
		return
	}
	version = max(version, 1) // like the engine
	s.mu.Lock()
	versions := s.versions
	s.mu.Unlock()
	if version > len(versions) {
		refuse(w, http.StatusBadRequest, "invalid ciphertext: version is too new")
		return
	}
	sealed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid ciphertext: could not decode base64")
		return
	}
	gcm := versions[version-1]
	if len(sealed) < gcm.NonceSize() {
		refuse(w, http.StatusBadRequest, "invalid ciphertext length")
		return
	}
	plain, err := gcm.Open(nil, sealed[:gcm.NonceSize()], sealed[gcm.NonceSize():], aad)
	if err != nil {
		refuse(w, http.StatusBadRequest, "cipher: message authentication failed")
		return
	}
	reply(w, map[string]any{"plaintext": base64.StdEncoding.EncodeToString(plain)})
}

func reply(w http.ResponseWriter, data map[string]any) {
	write(w, http.StatusOK, map[string]any{"request_id": rand.Text(), "lease_id": "", "renewable": false, "lease_duration": 0, "data": data})
}

func refuse(w http.ResponseWriter, status int, message string) {
	write(w, status, map[string]any{"errors": []string{message}})
}

func write(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}

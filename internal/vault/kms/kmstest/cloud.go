package kmstest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Cloud is the common part of the servers that imitate AWS KMS and Google Cloud KMS: one key with versions, and
// injected faults. They implement the part of the HTTP APIs that package kms uses, according to the documentation and
// the SDKs. They have not been compared with the real services. They require a signature or token but do not check
// it.
type Cloud struct {
	// URL and Key are what an adapter needs.
	URL, Key string

	mu       sync.Mutex
	versions []cipher.AEAD // index 0 is version 1
	fault    http.HandlerFunc
}

// Rotate adds a version and makes it the current one.
func (c *Cloud) Rotate() {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions = append(c.versions, gcm)
}

// Answer makes fault answer all further requests; nil restores the normal behaviour.
func (c *Cloud) Answer(fault http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

// Hang makes all further requests wait until the client disconnects.
func (c *Cloud) Hang() {
	c.Answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
}

func (c *Cloud) start(t testing.TB, handler http.Handler) {
	t.Helper()
	c.Rotate()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		fault := c.fault
		c.mu.Unlock()
		if fault != nil {
			// The server notices a disconnect only after the body was read.
			var body json.RawMessage
			_ = json.NewDecoder(r.Body).Decode(&body) // faults do not depend on the body
			fault(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
}

// encrypt prepends the version to the ciphertext. To clients the result is opaque.
func (c *Cloud) encrypt(plain, aad []byte) (version int, blob []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	version = len(c.versions)
	prefix := binary.BigEndian.AppendUint32(nil, uint32(version))
	return version, c.versions[version-1].Seal(prefix, nil, plain, slices.Concat(prefix, aad))
}

func (c *Cloud) decrypt(blob, aad []byte) (version int, plain []byte, ok bool) {
	if len(blob) < 4 {
		return 0, nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	version = int(binary.BigEndian.Uint32(blob))
	if version < 1 || version > len(c.versions) {
		return 0, nil, false
	}
	plain, err := c.versions[version-1].Open(nil, nil, blob[4:], slices.Concat(blob[:4], aad))
	return version, plain, err == nil
}

// NewAWS starts a server that imitates AWS KMS. It stops when the test ends.
func NewAWS(t testing.TB) *Cloud {
	t.Helper()
	c := &Cloud{Key: "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"}
	c.start(t, http.HandlerFunc(c.aws))
	return c
}

type awsBody struct {
	KeyID             string            `json:"KeyId"`
	KeySpec           string            `json:"KeySpec"`
	CiphertextBlob    []byte            `json:"CiphertextBlob"`
	EncryptionContext map[string]string `json:"EncryptionContext"`
}

func (c *Cloud) aws(w http.ResponseWriter, r *http.Request) {
	var body awsBody
	refuse := func(status int, code string) {
		w.Header().Set("X-Amzn-Errortype", code)
		writeCloud(w, "application/x-amz-json-1.1", status, map[string]any{"__type": code, "message": "a message"})
	}
	operation, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "TrentService.")
	switch {
	case !ok || r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&body) != nil:
		refuse(http.StatusBadRequest, "SerializationException")
		return
	case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 "):
		refuse(http.StatusBadRequest, "MissingAuthenticationTokenException")
		return
	case body.KeyID != c.Key:
		refuse(http.StatusBadRequest, "NotFoundException")
		return
	}
	context, err := json.Marshal(body.EncryptionContext) // sorted by name, so it is canonical
	if err != nil {
		panic(err)
	}
	answer := map[string]any{"KeyId": c.Key}
	var version int
	switch operation {
	case "GenerateDataKey":
		plain := make([]byte, 32)
		_, _ = rand.Read(plain) // never fails
		var blob []byte
		version, blob = c.encrypt(plain, context)
		answer["Plaintext"], answer["CiphertextBlob"] = plain, blob
	case "Decrypt":
		var plain []byte
		if version, plain, ok = c.decrypt(body.CiphertextBlob, context); !ok {
			refuse(http.StatusBadRequest, "InvalidCiphertextException")
			return
		}
		answer["Plaintext"], answer["EncryptionAlgorithm"] = plain, "SYMMETRIC_DEFAULT"
	default:
		refuse(http.StatusBadRequest, "UnknownOperationException")
		return
	}
	material := sha256.Sum256([]byte("material " + strconv.Itoa(version)))
	answer["KeyMaterialId"] = hex.EncodeToString(material[:])
	writeCloud(w, "application/x-amz-json-1.1", http.StatusOK, answer)
}

// NewGCP starts a server that imitates Google Cloud KMS. It stops when the test ends.
func NewGCP(t testing.TB) *Cloud {
	t.Helper()
	c := &Cloud{Key: "projects/stage/locations/europe-west1/keyRings/door/cryptoKeys/orgs"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/", c.gcp)
	c.start(t, mux)
	return c
}

type gcpBody struct {
	Plaintext     []byte `json:"plaintext"`
	PlaintextCRC  string `json:"plaintextCrc32c"`
	Ciphertext    []byte `json:"ciphertext"`
	CiphertextCRC string `json:"ciphertextCrc32c"`
	AAD           []byte `json:"additionalAuthenticatedData"`
	AADCRC        string `json:"additionalAuthenticatedDataCrc32c"`
}

func crc(b []byte) string {
	return strconv.FormatUint(uint64(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))), 10)
}

func (c *Cloud) gcp(w http.ResponseWriter, r *http.Request) {
	var body gcpBody
	refuse := func(status int, name string) {
		writeCloud(w, "application/json", status, map[string]any{"error": map[string]any{"code": status, "status": name, "message": "a message"}})
	}
	name, operation, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), ":")
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "):
		refuse(http.StatusUnauthorized, "UNAUTHENTICATED")
	case name != c.Key:
		refuse(http.StatusNotFound, "NOT_FOUND")
	case json.NewDecoder(r.Body).Decode(&body) != nil, body.AADCRC != crc(body.AAD):
		refuse(http.StatusBadRequest, "INVALID_ARGUMENT")
	case operation == "encrypt" && body.PlaintextCRC == crc(body.Plaintext):
		version, blob := c.encrypt(body.Plaintext, body.AAD)
		writeCloud(w, "application/json", http.StatusOK, map[string]any{
			"name": c.Key + "/cryptoKeyVersions/" + strconv.Itoa(version), "ciphertext": blob, "ciphertextCrc32c": crc(blob),
			"verifiedPlaintextCrc32c": true, "verifiedAdditionalAuthenticatedDataCrc32c": true, "protectionLevel": "SOFTWARE",
		})
	case operation == "decrypt" && body.CiphertextCRC == crc(body.Ciphertext):
		_, plain, ok := c.decrypt(body.Ciphertext, body.AAD)
		if !ok {
			refuse(http.StatusBadRequest, "INVALID_ARGUMENT")
			return
		}
		writeCloud(w, "application/json", http.StatusOK, map[string]any{"plaintext": plain, "plaintextCrc32c": crc(plain), "usedPrimary": true})
	default:
		refuse(http.StatusNotFound, "NOT_FOUND")
	}
}

func writeCloud(w http.ResponseWriter, kind string, status int, body map[string]any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}

// A complete receiver for Breakwater's webhooks. Go 1.22 or later, with only the standard library.
//
//	WEBHOOK_SECRET=whsec_… go run receiver.go
//	WEBHOOK_JWKS=https://breakwater.example.com/v1/destinations/dst_…/jwks.json go run receiver.go
//
// The first verifies HMAC-SHA256 with the destination's secret, the second ed25519 with its public keys.
package main

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	tolerance    = 5 * time.Minute
	maxBodyBytes = 1 << 20
	remembered   = 7 * 24 * time.Hour
)

// refused is the answer to a refused request.
type refused struct {
	status  int
	message string
}

func (r refused) Error() string { return r.message }

type receiver struct {
	secret  []byte // empty for ed25519
	keys    *keySet
	handled *idSet
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	err := r.receive(w, request)
	var no refused
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.As(err, &no):
		if no.status == http.StatusServiceUnavailable {
			w.Header().Set("retry-after", "30")
		}
		http.Error(w, no.message, no.status)
	default:
		log.Print(err)
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (r *receiver) receive(w http.ResponseWriter, request *http.Request) error {
	if request.Method != http.MethodPost {
		return refused{http.StatusMethodNotAllowed, "only POST is accepted"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBodyBytes))
	if err != nil {
		return refused{http.StatusRequestEntityTooLarge, "the body is too large"}
	}
	if err := r.verify(request.Header, body); err != nil {
		return err
	}
	id := request.Header.Get("webhook-id")
	if !r.handled.claim(id) {
		fmt.Println("duplicate", id)
		return nil
	}
	if err := handle(id, body); err != nil {
		r.handled.release(id)
		return err
	}
	return nil
}

// verify fails unless the request was signed less than five minutes ago. body is its raw bytes.
func (r *receiver) verify(header http.Header, body []byte) error {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	signatures := header.Get("webhook-signature")
	if id == "" || timestamp == "" || signatures == "" {
		return refused{http.StatusUnauthorized, "a webhook header is missing"}
	}
	seconds, err := strconv.ParseUint(timestamp, 10, 40)
	if err != nil || time.Since(time.Unix(int64(seconds), 0)).Abs() > tolerance {
		return refused{http.StatusUnauthorized, "the timestamp is too old or too new"}
	}
	content := append([]byte(id+"."+timestamp+"."), body...)
	isValid, err := r.isSigned(content, strings.Split(signatures, " "))
	if err == nil && !isValid {
		err = refused{http.StatusUnauthorized, "no signature matches"}
	}
	return err
}

func (r *receiver) isSigned(content []byte, signatures []string) (bool, error) {
	if len(r.secret) > 0 {
		return isSignedByHMAC(content, signatures, r.secret), nil
	}
	keys, err := r.keys.get(5 * time.Minute)
	if err != nil || isSignedByKey(content, signatures, keys) {
		return err == nil, err
	}
	// A key that is not known may be new: the destination's secret has been rotated.
	keys, err = r.keys.get(time.Second)
	return err == nil && isSignedByKey(content, signatures, keys), err
}

// isSignedByHMAC accepts any of the signatures: there is one for each secret that is in force.
func isSignedByHMAC(content []byte, signatures []string, secret []byte) bool {
	mac := hmac.New(sha256.New, secret)
	mac.Write(content)
	expected := mac.Sum(nil)
	for _, bytes := range signaturesOf("v1", signatures) {
		if hmac.Equal(bytes, expected) {
			return true
		}
	}
	return false
}

func isSignedByKey(content []byte, signatures []string, keys []ed25519.PublicKey) bool {
	for _, bytes := range signaturesOf("v1a", signatures) {
		for _, key := range keys {
			if ed25519.Verify(key, content, bytes) {
				return true
			}
		}
	}
	return false
}

// signaturesOf decodes the signatures of a version.
func signaturesOf(version string, signatures []string) (decoded [][]byte) {
	for _, one := range signatures {
		given, text, _ := strings.Cut(one, ",")
		if bytes, err := base64.StdEncoding.DecodeString(text); err == nil && given == version {
			decoded = append(decoded, bytes)
		}
	}
	return decoded
}

// keySet caches the public keys.
type keySet struct {
	url     string
	mutex   sync.Mutex
	keys    []ed25519.PublicKey
	fetched time.Time
}

// get returns the keys, fetched again when they are older than maxAge; the last known ones when they cannot be fetched.
func (s *keySet) get(maxAge time.Duration) ([]ed25519.PublicKey, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.keys == nil {
		maxAge = time.Second
	}
	if time.Since(s.fetched) >= maxAge {
		s.fetched = time.Now()
		if keys, err := fetchKeys(s.url); err == nil {
			s.keys = keys
		} else {
			log.Print("The public keys cannot be fetched: ", err)
		}
	}
	if s.keys == nil {
		return nil, refused{http.StatusServiceUnavailable, "the public keys are not known"}
	}
	return s.keys, nil
}

func fetchKeys(url string) ([]ed25519.PublicKey, error) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	var set struct {
		Keys []struct{ Kty, Crv, X string }
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxBodyBytes)).Decode(&set); err != nil {
		return nil, err
	}
	keys := []ed25519.PublicKey{}
	for _, key := range set.Keys {
		bytes, err := base64.RawURLEncoding.DecodeString(key.X)
		if err == nil && key.Kty == "OKP" && key.Crv == "Ed25519" && len(bytes) == ed25519.PublicKeySize {
			keys = append(keys, bytes)
		}
	}
	return keys, nil
}

// idSet holds the ids that have been handled. In production this is a table with a unique column: insert the id in the
// transaction that stores the effect, so that both or neither survive a crash.
type idSet struct {
	mutex sync.Mutex
	at    map[string]time.Time
}

// claim reports whether this is the first request with the id.
func (s *idSet) claim(id string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for known, at := range s.at {
		if time.Since(at) > remembered {
			delete(s.at, known)
		}
	}
	if _, isKnown := s.at[id]; isKnown {
		return false
	}
	s.at[id] = time.Now()
	return true
}

func (s *idSet) release(id string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.at, id)
}

// handle is the application's handling of an event.
func handle(id string, body []byte) error {
	var event struct {
		Type string
		Data json.RawMessage
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return err
	}
	fmt.Println("handled", id, event.Type)
	return nil
}

func main() {
	secret, url, port := os.Getenv("WEBHOOK_SECRET"), os.Getenv("WEBHOOK_JWKS"), os.Getenv("PORT")
	if (secret == "") == (url == "") {
		log.Fatal("Set either WEBHOOK_SECRET or WEBHOOK_JWKS")
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || secret != "" && !strings.HasPrefix(secret, "whsec_") {
		log.Fatal("WEBHOOK_SECRET is whsec_ and base64")
	}
	if port == "" {
		port = "8788"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr().(*net.TCPAddr).Port)
	server := http.Server{
		Handler:     &receiver{key, &keySet{url: url}, &idSet{at: map[string]time.Time{}}},
		ReadTimeout: 30 * time.Second,
	}
	log.Fatal(server.Serve(listener))
}

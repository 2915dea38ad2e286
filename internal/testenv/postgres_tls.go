package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// OtherCA writes the certificate of an authority that signed nothing, for tests in which the server must not be trusted, and
// returns its path.
func OtherCA(tb testing.TB) string {
	tb.Helper()
	authority, err := newAuthority()
	if err != nil {
		tb.Fatalf("make certificate authority: %v", err)
	}
	path := filepath.Join(tb.TempDir(), "other-ca.crt")
	if err := writePEM(path, "CERTIFICATE", authority.cert.Raw, 0o644); err != nil {
		tb.Fatal(err)
	}
	return path
}

// authority signs server certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes a certificate authority that is valid for a day.
func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of the authority: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "compactor test authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read certificate of the authority: %w", err)
	}
	return &authority{cert: cert, key: key}, nil
}

// issue signs a certificate for localhost and 127.0.0.1 and returns it with its key, both as DER.
func (a *authority) issue() (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key of the server: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err = x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate of the server: %w", err)
	}
	key, err = x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key of the server: %w", err)
	}
	return cert, key, nil
}

// addCertificate writes authority, certificate and key beside the data and adds the settings that use them.
func (s *PostgresServer) addCertificate(settings map[string]string) error {
	authority, err := newAuthority()
	if err != nil {
		return err
	}
	cert, key, err := authority.issue()
	if err != nil {
		return err
	}
	caPath := filepath.Join(s.dir, "ca.crt")
	certPath, keyPath := filepath.Join(s.dir, "server.crt"), filepath.Join(s.dir, "server.key")
	if err := writePEM(caPath, "CERTIFICATE", authority.cert.Raw, 0o644); err != nil {
		return err
	}
	if err := writePEM(certPath, "CERTIFICATE", cert, 0o644); err != nil {
		return err
	}
	if err := writePEM(keyPath, "EC PRIVATE KEY", key, 0o600); err != nil {
		return err
	}
	if err := giveTo(s.account, certPath, keyPath); err != nil {
		return err
	}
	s.CACert = caPath
	settings["ssl"] = "on"
	settings["ssl_cert_file"] = certPath
	settings["ssl_key_file"] = keyPath
	return nil
}

// writePEM writes one PEM block.
func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

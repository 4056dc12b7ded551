// A client made of franz-go or sarama (the one argument). It reads commands as lines and answers each with a line;
// java/SecuredClient.java describes them.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const timeout = 10 * time.Second // for one record
const pause = 50 * time.Millisecond

// Client is a client that writes records to partition 0 of one topic, and reads them from the start.
type Client interface {
	Send(ctx context.Context, topic, value string) error
	Read(ctx context.Context, topic, value string) error // returns when this value is found
	Close()
}

// Settings has the words NAME=VALUE of a line.
type Settings map[string]string

func main() {
	connect := map[string]func(Settings) (Client, error){"franz": connectFranz, "sarama": connectSarama}[os.Args[1]]
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		settings := Settings{}
		for _, word := range words[4:] {
			name, value, _ := strings.Cut(word, "=")
			settings[name] = value
		}
		if err := carryOut(connect, words, settings); err != nil {
			fmt.Println(words[0], "failed", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println(words[0], "ok")
		}
	}
}

func carryOut(connect func(Settings) (Client, error), words []string, settings Settings) error {
	number, what, topic, argument := words[0], words[1], words[2], words[3]
	client, err := connect(settings)
	if err != nil {
		return err
	}
	defer client.Close()
	if what == "talk" {
		if err := send(client, topic, argument); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return client.Read(ctx, topic, argument)
	}
	milliseconds, err := strconv.Atoi(argument)
	if err != nil {
		return err
	}
	if err := send(client, topic, "stay"); err != nil {
		return err
	}
	fmt.Println(number, "begun")
	end := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	for time.Now().Before(end) {
		time.Sleep(pause)
		if err := send(client, topic, "stay"); err != nil {
			return err
		}
	}
	return nil
}

func send(client Client, topic, value string) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return client.Send(ctx, topic, value)
}

func (s Settings) isSecured(by string) bool {
	return strings.Contains(s["security.protocol"], by)
}

// tls returns the trusted authorities and the client's own certificate, which are in PEM files.
func (s Settings) tls() (*tls.Config, error) {
	authorities, err := os.ReadFile(s["ca"])
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(authorities) {
		return nil, errors.New("there is no certificate in " + s["ca"])
	}
	if file := s["certificate"]; file != "" {
		own, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// token returns the token in a file.
func (s Settings) token() (string, error) {
	content, err := os.ReadFile(s["token"])
	return string(content), err
}

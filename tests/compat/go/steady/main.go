// A producer made of franz-go that writes records at a steady rate, idempotent and with acks=all, until its input ends.
//
// Arguments: BOOTSTRAP,... TOPIC RECORDS-A-SECOND
//
// Out, one line for each record: "ack", or "failed" and the error.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if err := work(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work(bootstrap, topic, rate string) error {
	perSecond, err := strconv.Atoi(rate)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	value := []byte(strings.Repeat("x", 100))
	began := time.Now()
	for number := 1; ; number++ {
		client.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				fmt.Println("failed", err)
			} else {
				fmt.Println("ack")
			}
		})
		select {
		case <-over:
			return nil
		case <-time.After(time.Until(began.Add(time.Duration(number) * time.Second / time.Duration(perSecond)))):
		}
	}
}

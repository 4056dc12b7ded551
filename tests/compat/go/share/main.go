// A member of a share group made of franz-go. Runs until SIGTERM, after which it leaves the group, or until it
// is killed.
//
// Arguments: BOOTSTRAP,... GROUP TOPIC MODE
//
//	accept   every record
//	single   every record, with one record a poll
//	release  every record at its first delivery, and accept it later
//	reject   every record whose value begins with "bad", and accept the others
//	renew    every lock for twice its duration, and then accept the record
//	hold     nothing: it keeps the records that it was given
//
// Out, one on each line:
//
//	polled TOPIC-PARTITION OFFSET DELIVERY-COUNT VALUE    for each record
//	renewed TOPIC-PARTITION OFFSET
//	acknowledged TOPIC-PARTITION, or failed TOPIC-PARTITION and the error    for each partition of a response
//	closed
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const timeout = 30 * time.Second

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if err := work(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work(ctx context.Context, args []string) error {
	bootstrap, group, topic, mode := args[0], args[1], args[2], args[3]
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ShareGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.ShareAckCallback(tell),
	}
	most := -1
	if mode == "single" {
		most = 1
		options = append(options, kgo.ShareMaxRecords(1), kgo.ShareMaxRecordsStrict())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, most)
		for _, failure := range fetches.Errors() {
			if ctx.Err() == nil {
				return fmt.Errorf("%s-%d: %w", failure.Topic, failure.Partition, failure.Err)
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Printf("polled %s-%d %d %d %s\n",
				record.Topic, record.Partition, record.Offset, record.DeliveryCount(), record.Value)
		})
		if fetches.NumRecords() == 0 {
			continue
		}
		if mode == "hold" {
			<-ctx.Done()
			break
		}
		if mode == "renew" {
			if err := renew(ctx, client, fetches.Records()); err != nil {
				return err
			}
		}
		fetches.EachRecord(func(record *kgo.Record) { record.Ack(acknowledgement(mode, record)) })
		if err := flush(client); err != nil {
			return err
		}
	}
	closing, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := client.LeaveGroupContext(closing); err != nil {
		return err
	}
	client.Close()
	fmt.Println("closed")
	return nil
}

func acknowledgement(mode string, record *kgo.Record) kgo.AckStatus {
	switch {
	case mode == "release" && record.DeliveryCount() == 1:
		return kgo.AckRelease
	case mode == "reject" && strings.HasPrefix(string(record.Value), "bad"):
		return kgo.AckReject
	}
	return kgo.AckAccept
}

// renew holds the records for twice the time of their lock.
func renew(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	lock := time.Until(records[0].AcquisitionDeadline())
	for range 6 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lock / 3):
		}
		for _, record := range records {
			record.Ack(kgo.AckRenew)
		}
		if err := flush(client); err != nil {
			return err
		}
		for _, record := range records {
			fmt.Printf("renewed %s-%d %d\n", record.Topic, record.Partition, record.Offset)
		}
	}
	return nil
}

func flush(client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return client.FlushAcks(ctx)
}

func tell(_ *kgo.Client, results kgo.ShareAckResults) {
	for _, one := range results {
		if one.Err != nil {
			fmt.Printf("failed %s-%d %v\n", one.Topic, one.Partition, one.Err)
		} else {
			fmt.Printf("acknowledged %s-%d\n", one.Topic, one.Partition)
		}
	}
}

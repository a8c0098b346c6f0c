# Runs Logstash's filter on messages, each a line of JSON, and prints the events that it makes, each on a line.
#
#   ruby filter_messages.rb FILTER.rb <MESSAGES
#
# Logstash itself is not needed: a class replaces the part of its event that the filter uses, and the script is evaluated
# as Logstash's ruby filter does it.

require "json"
require "time"

module LogStash
  # Like Logstash's class, a new event gets a version, and a time that it can read.
  class Event
    def initialize(fields = {})
      @fields = { "@version" => "1" }.merge(fields)
      @fields["@timestamp"] = Time.iso8601(@fields["@timestamp"]).utc.iso8601(3) if @fields["@timestamp"]
      @metadata = {}
    end

    def to_hash
      @fields
    end

    def remove(name)
      @fields.delete(name)
    end

    def set(name, value)
      raise ArgumentError, name unless name =~ /\A\[@metadata\]\[(\w+)\]\z/

      @metadata[Regexp.last_match(1)] = value
    end

    def tag(name)
      (@fields["tags"] ||= []) << name
    end

    def to_line
      JSON.generate(@fields.merge("@metadata" => @metadata))
    end
  end
end

script = Object.new
script.instance_eval(File.read(ARGV[0]), ARGV[0])
script.register({})
$stdin.each_line do |line|
  script.filter(LogStash::Event.new(JSON.parse(line))).each { |event| puts event.to_line }
end
